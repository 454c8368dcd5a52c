#include "server/auth/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "server/auth/tls_context.h"

namespace lightcone::server::auth {
namespace {

constexpr int64_t kPemBytesMax = 1 << 20;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio BioOf(const std::string& pem) { return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free}; }

// No pass phrase is asked for at the terminal.
int NoPassPhrase(char*, int, int, void*) { return 0; }

absl::StatusOr<X509Ptr> FirstCertificate(const std::string& pem, const std::string& path) {
  const Bio bio = BioOf(pem);
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, &NoPassPhrase, nullptr), &X509_free);
  ERR_clear_error();
  if (certificate == nullptr) return InvalidArgument(StrCat("'", path, "' holds no certificate in PEM"));
  return certificate;
}

absl::StatusOr<absl::Time> EndOf(const X509& certificate) {
  std::tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1) {
    return InvalidArgument("a certificate does not say until when it is valid");
  }
  return absl::FromTM(end, absl::UTCTimeZone());
}

// The end of the certificate's validity.
absl::StatusOr<absl::Time> CheckPair(const CertificateOptions& options, const std::string& chain,
                                     const std::string& key_pem) {
  LC_ASSIGN_OR_RETURN(const X509Ptr certificate, FirstCertificate(chain, options.certificate_file));
  const Bio bio = BioOf(key_pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassPhrase, nullptr), &EVP_PKEY_free);
  const bool pair = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return InvalidArgument(StrCat("'", options.key_file, "' holds no private key in PEM without a pass phrase"));
  }
  if (!pair) {
    return InvalidArgument(StrCat("the key of '", options.key_file, "' is not that of the certificate of '",
                                  options.certificate_file, "'"));
  }
  return EndOf(*certificate);
}

absl::StatusOr<int> MakeCopy(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "memfd_create", name);
  return fd;
}

// Longer first, then cut: a reader sees the new text as soon as its first bytes are there.
absl::Status WriteCopy(int fd, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = pwrite(fd, text.data() + written, text.size() - written, static_cast<off_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoStatus(errno, "write", "TLS material");
    written += static_cast<size_t>(n);
  }
  if (ftruncate(fd, static_cast<off_t>(text.size())) != 0) return ErrnoStatus(errno, "truncate", "TLS material");
  return absl::OkStatus();
}

}  // namespace

Certificates::Certificates(const CertificateOptions& options) : options_(options) {}

Certificates::~Certificates() {
  for (const int fd : {pair_fd_, client_ca_fd_}) {
    if (fd >= 0) close(fd);
  }
}

absl::StatusOr<std::unique_ptr<Certificates>> Certificates::Open(const CertificateOptions& options) {
  std::unique_ptr<Certificates> self(new Certificates(options));
  LC_ASSIGN_OR_RETURN(self->pair_fd_, MakeCopy("lightcone-tls"));
  self->pair_path_ = StrCat("/proc/self/fd/", self->pair_fd_);
  if (!options.client_ca_file.empty()) {
    LC_ASSIGN_OR_RETURN(self->client_ca_fd_, MakeCopy("lightcone-client-ca"));
    self->client_ca_path_ = StrCat("/proc/self/fd/", self->client_ca_fd_);
  }
  LC_RETURN_IF_ERROR(self->Reload());
  absl::MutexLock lock(&self->mutex_);
  self->figures_.reloads_total = 0;  // the first reading
  return self;
}

absl::Status Certificates::Reload() {
  std::string line;
  const absl::Status status = [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(const std::string chain, ReadFile(options_.certificate_file, kPemBytesMax));
    LC_ASSIGN_OR_RETURN(const std::string key, ReadFile(options_.key_file, kPemBytesMax));
    LC_ASSIGN_OR_RETURN(const absl::Time not_after, CheckPair(options_, chain, key));
    std::string client_ca;
    if (!options_.client_ca_file.empty()) {
      LC_ASSIGN_OR_RETURN(client_ca, ReadFile(options_.client_ca_file, kPemBytesMax));
      LC_RETURN_IF_ERROR(FirstCertificate(client_ca, options_.client_ca_file).status());
    }
    const std::string pair = StrCat(key, key.ends_with('\n') ? "" : "\n", chain);
    LC_ASSIGN_OR_RETURN(std::shared_ptr<ssl_ctx_st> context, MakeTlsContext(pair, client_ca));
    absl::MutexLock lock(&mutex_);
    if (pair == pair_ && client_ca == client_ca_) return absl::OkStatus();
    LC_RETURN_IF_ERROR(WriteCopy(pair_fd_, pair));
    if (client_ca_fd_ >= 0) LC_RETURN_IF_ERROR(WriteCopy(client_ca_fd_, client_ca));
    pair_ = pair;
    client_ca_ = client_ca;
    context_ = std::move(context);
    figures_.not_after = not_after;
    ++figures_.reloads_total;
    line = StrCat("TLS material was read: the certificate is valid until ",
                  absl::FormatTime(absl::RFC3339_sec, not_after, absl::UTCTimeZone()));
    return absl::OkStatus();
  }();
  {
    const std::string failure = status.ok() ? "" : MessageOf(status);
    absl::MutexLock lock(&mutex_);
    if (failure != failure_ && !failure.empty()) {
      ++figures_.failed_reloads_total;
      line = StrCat("TLS material is not read again, and stays as it was: ", failure);
    }
    failure_ = failure;
  }
  if (!line.empty() && options_.log) options_.log(line);
  return status;
}

std::shared_ptr<ssl_ctx_st> Certificates::context() const {
  absl::ReaderMutexLock lock(&mutex_);
  return context_;
}

std::vector<std::string> Certificates::Files() const {
  std::vector<std::string> files = {options_.certificate_file, options_.key_file};
  if (!options_.client_ca_file.empty()) files.push_back(options_.client_ca_file);
  return files;
}

CertificateFigures Certificates::figures() const {
  absl::ReaderMutexLock lock(&mutex_);
  return figures_;
}

}  // namespace lightcone::server::auth
