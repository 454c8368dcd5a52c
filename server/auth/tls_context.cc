#include "server/auth/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string_view>
#include <vector>

#include "base/status.h"

namespace lightcone::server::auth {
namespace {

using TlsBio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using TlsCertificate = std::unique_ptr<X509, decltype(&X509_free)>;
using TlsKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// No pass phrase is asked for at the terminal.
int RefusePassPhrase(char*, int, int, void*) { return 0; }

TlsBio ReadBio(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free};
}

absl::Status TlsRefusal(std::string_view what) {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return InvalidArgument(StrCat(what, ": ", reason == nullptr ? "not taken by OpenSSL" : reason));
}

// Every certificate of a PEM text, in its order.
std::vector<TlsCertificate> CertificatesOf(const std::string& pem) {
  std::vector<TlsCertificate> all;
  const TlsBio bio = ReadBio(pem);
  for (;;) {
    TlsCertificate one(PEM_read_bio_X509(bio.get(), nullptr, &RefusePassPhrase, nullptr), &X509_free);
    if (one == nullptr) break;
    all.push_back(std::move(one));
  }
  ERR_clear_error();  // the end of the text
  return all;
}

absl::Status UsePair(const std::string& pair, SSL_CTX* context) {
  const std::vector<TlsCertificate> chain = CertificatesOf(pair);
  const TlsBio bio = ReadBio(pair);
  const TlsKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &RefusePassPhrase, nullptr), &EVP_PKEY_free);
  if (chain.empty() || key == nullptr) return TlsRefusal("TLS certificate and key");
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) return TlsRefusal("TLS certificate");
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return TlsRefusal("TLS certificate chain");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) return TlsRefusal("TLS private key");
  return absl::OkStatus();
}

absl::Status AskForClients(const std::string& client_ca, SSL_CTX* context) {
  for (const TlsCertificate& authority : CertificatesOf(client_ca)) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return TlsRefusal("authority of client certificates");
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

// Clients that ask for a protocol get HTTP/1.1, if they take it.
int ChooseHttp1(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned int in_size,
                void*) {
  static constexpr unsigned char kHttp1[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kHttp1, sizeof(kHttp1) - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ssl_ctx_st>> MakeTlsContext(const std::string& pair, const std::string& client_ca) {
  ERR_clear_error();
  std::shared_ptr<ssl_ctx_st> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return TlsRefusal("TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // Forward secrecy and authenticated encryption alone. TLS 1.3 has nothing else.
  if (SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) return TlsRefusal("TLS ciphers");
  SSL_CTX_set_alpn_select_cb(context.get(), &ChooseHttp1, nullptr);
  LC_RETURN_IF_ERROR(UsePair(pair, context.get()));
  if (!client_ca.empty()) LC_RETURN_IF_ERROR(AskForClients(client_ca, context.get()));
  return context;
}

}  // namespace lightcone::server::auth
