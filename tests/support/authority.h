// A certificate authority of a test, and the certificates that it signs: EC keys, in PEM.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace lightcone {

class Authority {
 public:
  struct Pair {
    std::string certificate, key;
  };

  Authority() : key_(MakeKey()), certificate_(Make("test authority", "", key_.get(), nullptr)) {}

  std::string certificate() const { return PemOf(certificate_.get()); }

  // A certificate for 127.0.0.1 and the name.
  Pair Issue(const std::string& name) const {
    const Key key = MakeKey();
    const Certificate made = Make(name, "DNS:" + name + ",IP:127.0.0.1", key.get(), certificate_.get());
    return {PemOf(made.get()), PemOf(key.get())};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static Key MakeKey() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

  static void AddExtension(X509* certificate, X509V3_CTX* context, int id, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, context, id, value);
    if (extension == nullptr) std::abort();
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  // `issuer` null: signed by itself, as an authority.
  Certificate Make(const std::string& name, const std::string& names, EVP_PKEY* key, X509* issuer) const {
    static long serial = 1;
    Certificate out(X509_new(), &X509_free);
    X509_set_version(out.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(out.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(out.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(out.get()), 3600);
    X509_set_pubkey(out.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(out.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(out.get(), X509_get_subject_name(issuer == nullptr ? out.get() : issuer));
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer == nullptr ? out.get() : issuer, out.get(), nullptr, nullptr, 0);
    AddExtension(out.get(), &context, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) AddExtension(out.get(), &context, NID_subject_alt_name, names.c_str());
    if (X509_sign(out.get(), issuer == nullptr ? key : key_.get(), EVP_sha256()) == 0) std::abort();
    return out;
  }

  static std::string TextOf(BIO* bio) {
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<size_t>(bytes));
    BIO_free(bio);
    return text;
  }
  static std::string PemOf(X509* certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    return TextOf(bio);
  }
  static std::string PemOf(EVP_PKEY* key) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    return TextOf(bio);
  }

  const Key key_;
  const Certificate certificate_;
};

}  // namespace lightcone
