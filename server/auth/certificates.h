// TLS material that was checked: a certificate chain with its key, and the authorities of client certificates. The
// checked copies lie in memory and are files by their paths, so that a transport which reads files never reads a pair
// that does not belong together. A transport of OpenSSL gets a context with them.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace lightcone::server::auth {

struct CertificateOptions {
  std::string certificate_file;     // PEM: the server's certificate, then those between it and its authority
  std::string key_file;             // PEM: its private key, without a pass phrase
  std::string client_ca_file = {};  // PEM: authorities whose client certificates are taken; empty: none is asked for
  std::function<void(const std::string& line)> log = {};  // may be empty; called from any thread
};

struct CertificateFigures {
  absl::Time not_after;  // end of the validity of the server's certificate
  uint64_t reloads_total = 0, failed_reloads_total = 0;
};

class Certificates {
 public:
  // INVALID_ARGUMENT names the file that holds no PEM, or a key that is not the certificate's. NOT_FOUND for a file
  // that is not there.
  static absl::StatusOr<std::unique_ptr<Certificates>> Open(const CertificateOptions& options);
  ~Certificates();

  // Reads the files again. An error leaves the copies as they are. It is logged and counted once, however often it is
  // met.
  absl::Status Reload();

  // Path of the copy that holds both the key and the chain.
  const std::string& pair_path() const { return pair_path_; }
  // Path of the copy of the authorities; empty: no client certificate is asked for.
  const std::string& client_ca_path() const { return client_ca_path_; }
  // The newest context for servers: TLS 1.2 and later, HTTP/1.1. Connections keep the one with which they began.
  std::shared_ptr<ssl_ctx_st> context() const;
  std::vector<std::string> Files() const;
  CertificateFigures figures() const;

 private:
  explicit Certificates(const CertificateOptions& options);

  const CertificateOptions options_;
  int pair_fd_ = -1, client_ca_fd_ = -1;
  std::string pair_path_, client_ca_path_;
  mutable absl::Mutex mutex_;
  std::string pair_ ABSL_GUARDED_BY(mutex_), client_ca_ ABSL_GUARDED_BY(mutex_);  // content of the copies
  std::shared_ptr<ssl_ctx_st> context_ ABSL_GUARDED_BY(mutex_);
  std::string failure_ ABSL_GUARDED_BY(mutex_);  // why the last reload failed; empty: it did not
  CertificateFigures figures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone::server::auth
