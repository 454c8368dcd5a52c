// What a verb of the REST room gets, and what it answers: JSON text, the part "result" of the envelope.
// Threads: a value of one call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "index/api/collection_index.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"
#include "server/http/http_message.h"

namespace lightcone::server {

// The version of Qdrant's API that these paths and bodies follow: clients compare it with their own.
inline constexpr char kQdrantVersion[] = "1.18.0";

struct RestCall {
  Engine& engine;
  const IndexSettings& index_defaults;  // settings of new collections
  const HttpRequest& request;
  const nlohmann::json& body;  // null where the endpoint takes none
  CallContext context;
  std::string_view version;  // version of the server

  // A part of the path that the endpoint's pattern names, or an empty text.
  std::string Parameter(const std::string& name) const;
  std::string collection() const { return Parameter("collection"); }
  // A parameter behind the path's question mark; `fallback` where it is not there. INVALID_ARGUMENT names it.
  absl::StatusOr<bool> QueryFlag(const std::string& name, bool fallback) const;
  // "?generation=": 0 is the active one.
  absl::StatusOr<uint32_t> QueryGeneration() const;
};

// The JSON text, with '?' for bytes that are no UTF-8.
std::string TextOfJson(const nlohmann::json& value);

// {"operation_id", "status"}: every write is complete when it is answered, and the status says what the caller asked
// for by "?wait=".
// There are "warnings" only where the engine gave any.
absl::StatusOr<std::string> UpdateResult(const RestCall& call, uint64_t sequence,
                                         const std::vector<std::string>& warnings = {});

}  // namespace lightcone::server
