#include "server/app/trust.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "server/app/log.h"

namespace lightcone::server {
namespace {

absl::Status CheckReach(const ServerConfig& config, const Address& address, std::string_view option,
                        const std::string& value) {
  if (IsLoopback(address) || (!config.tls.certificate_file.empty() && AsksForKeys(config))) return absl::OkStatus();
  return InvalidField(option, StrCat("'", value, "', which other machines reach"),
                      "a loopback address; any address with TLS (tls.certificate_file, tls.key_file) and keys "
                      "(auth.keys_file); or any with --insecure");
}

}  // namespace

bool AsksForKeys(const ServerConfig& config) {
  return !config.auth.keys_file.empty() || !config.auth.token_secrets_file.empty();
}

absl::Status CheckExposure(const ServerConfig& config, const Address& grpc, const std::optional<Address>& http) {
  const TlsConfig& tls = config.tls;
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return InvalidField(tls.key_file.empty() ? "tls.key_file" : "tls.certificate_file", "empty",
                        "both tls.certificate_file and tls.key_file, or neither");
  }
  if (!tls.client_ca_file.empty() && tls.certificate_file.empty()) {
    return InvalidField("tls.certificate_file", "empty", "a file, since tls.client_ca_file is set");
  }
  if (config.insecure) return absl::OkStatus();
  LC_RETURN_IF_ERROR(CheckReach(config, grpc, "listen", config.listen));
  return http.has_value() ? CheckReach(config, *http, "http_listen", config.http_listen) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Trust>> Trust::Open(const ServerConfig& config) {
  std::unique_ptr<Trust> self(new Trust);
  const auto log = [](const std::string& line) { LogWarning(line); };
  std::vector<auth::WatchedFiles> watched;
  if (AsksForKeys(config)) {
    auth::KeyringOptions options = {
        .keys_file = config.auth.keys_file, .token_secrets_file = config.auth.token_secrets_file, .log = log};
    LC_ASSIGN_OR_RETURN(self->keys_, auth::Keyring::Open(options));
    watched.push_back({self->keys_->Files(), [keys = self->keys_.get()] { keys->Reload().IgnoreError(); }});
  }
  if (!config.tls.certificate_file.empty()) {
    LC_ASSIGN_OR_RETURN(self->certificates_, auth::Certificates::Open({.certificate_file = config.tls.certificate_file,
                                                                       .key_file = config.tls.key_file,
                                                                       .client_ca_file = config.tls.client_ca_file,
                                                                       .log = log}));
    watched.push_back({self->certificates_->Files(),
                       [certificates = self->certificates_.get()] { certificates->Reload().IgnoreError(); }});
  }
  if (!watched.empty()) self->watch_ = std::make_unique<auth::FileWatch>(std::move(watched));
  return self;
}

TrustFigures Trust::figures() const {
  TrustFigures figures;
  if (keys_ != nullptr) figures.keys = keys_->figures();
  if (certificates_ != nullptr) figures.certificates = certificates_->figures();
  return figures;
}

}  // namespace lightcone::server
