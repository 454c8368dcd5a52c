// The member "endpoint" of a manifest: a server elsewhere that embeds texts for a generation and speaks OpenAI's
// `POST /v1/embeddings` (docs/reference/formats/models.md). It names where a key lies, never the key.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"
#include "server/engine/api/endpoint_options.h"

namespace lightcone::server {

struct EndpointManifest {
  std::string url;                             // normalised; http or https, without user, password and fragment
  std::string scheme, host, port;              // parts of `url`; the port is always set
  std::string model;                           // name that the endpoint knows the model by
  std::optional<int> dimensions;               // length of vectors to ask for; none: not asked for
  std::string query_prefix, document_prefix;   // put before the texts of queries, and of items
  int batch_size = 64;                         // most texts of one request
  int concurrency = 4;                         // most requests at once
  absl::Duration timeout = absl::Seconds(30);  // limit for one request
  std::string key_file;                        // name of a file in EndpointOptions::keys_folder; empty: none
  std::string key_env;                         // environment variable of the server; empty: none

  // The endpoint in messages: scheme, host and port.
  std::string Name() const;
};

inline constexpr char kEndpointKeyPrefix[] = "LIGHTCONE_ENDPOINT_";  // prefix of environment variables with keys

// `json` is the member itself. INVALID_ARGUMENT names the member, its value and what is allowed. A member that is not
// known is refused, so that nobody writes a key there.
absl::StatusOr<EndpointManifest> ReadEndpoint(const nlohmann::json& json);

// FAILED_PRECONDITION, which names the option: the operator has not listed the host, or no folder of keys.
absl::Status CheckEndpointAllowed(const EndpointManifest& endpoint, const EndpointOptions& options);

// An entry of EndpointOptions::hosts: a host, or host:port. INVALID_ARGUMENT names `option`.
absl::Status CheckEndpointHost(const std::string& entry, const std::string& option);

}  // namespace lightcone::server
