// Who may call a server: its keys and TLS material, which are read again when their files change, and whether it may
// listen where it is told to.
// Threads: one thread makes and ends it; the rest is safe from any thread.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/certificates.h"
#include "server/auth/file_watch.h"
#include "server/auth/keyring.h"
#include "server/metrics/metrics.h"
#include "server/options/config.h"
#include "server/rpc/address.h"

namespace lightcone::server {

// INVALID_ARGUMENT names the option: an address beyond loopback without TLS or without keys, unless `insecure`; a file
// of TLS without the one that it needs. `http` is absent: the server has no HTTP.
absl::Status CheckExposure(const ServerConfig& config, const Address& grpc, const std::optional<Address>& http);

// Whether callers have to show a key.
bool AsksForKeys(const ServerConfig& config);

class Trust {
 public:
  // Reads the files and watches them. Errors of Keyring::Open and Certificates::Open.
  static absl::StatusOr<std::unique_ptr<Trust>> Open(const ServerConfig& config);

  auth::Keyring* keys() const { return keys_.get(); }                       // null: no keys are asked for
  auth::Certificates* certificates() const { return certificates_.get(); }  // null: no encryption
  TrustFigures figures() const;

 private:
  Trust() = default;

  std::unique_ptr<auth::Keyring> keys_;
  std::unique_ptr<auth::Certificates> certificates_;
  std::unique_ptr<auth::FileWatch> watch_;  // ends first
};

}  // namespace lightcone::server
