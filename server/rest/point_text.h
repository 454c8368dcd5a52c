// Points as Qdrant writes them. Ids are unsigned 64-bit integers or UUIDs, which are names of items: 36 characters in
// lower case with dashes. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/types.h"

namespace lightcone::server {

// An integer, or the text of a UUID in any of its usual forms. INVALID_ARGUMENT names `field`.
absl::StatusOr<ItemId> PointIdFrom(const nlohmann::json& value, std::string_view field);
absl::StatusOr<std::vector<ItemId>> PointIdsFrom(const nlohmann::json& value, const std::string& field);
// The same from a part of a path.
absl::StatusOr<ItemId> PointIdFromPath(std::string_view text);

// JSON text, with names as they are.
std::string PointIdText(const ItemId& id);

// Parts of an answer's points.
struct PointParts {
  bool payload = false;
  PayloadSelection selection;
  bool vector = false;
  std::string vector_name;  // name under which the vector is shown; empty: it stands alone
  // Generation of that name. A point of another one has no vector of that name: {}. 0: any.
  uint32_t vector_generation = 0;
};

struct PointView {
  const ItemId& id;
  const std::string& payload_json;
  const std::vector<float>& vector;
  uint32_t generation = 0;
  double uncertainty = 0;
  std::optional<absl::Time> expires = {};  // time from which the point is gone
};

// {"id", "payload", "vector", "lightcone"}. The payload is the stored text, so that its numbers keep their digits.
std::string RecordText(const PointView& point, const PointParts& parts);
// {"id", "version", "score", "payload", "vector", "lightcone"}; `score` as Qdrant's clients read it.
std::string ScoredPointText(const EngineHit& hit, double score, const PointParts& parts);

// "[a,b]"
std::string ListText(const std::vector<std::string>& texts);
// JSON has no infinity and no NaN: null.
std::string NumberJson(double x);

}  // namespace lightcone::server
