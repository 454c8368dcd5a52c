// What the engine says, as the console's JSON. Times are seconds since 1970. Ids are {"number": "7"} or {"name": "a"},
// because JavaScript's numbers hold less than 64 bits.
// Threads: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"

namespace lightcone::server {

nlohmann::json IdToJson(const ItemId& id);
nlohmann::json ToJson(const CollectionStatus& status);
nlohmann::json ToJson(const GenerationStatus& status);
nlohmann::json ToJson(const AdapterStatus& status);
nlohmann::json ToJson(const BackfillStatus& status);
nlohmann::json ToJson(const LiveRecallStatus& status);
nlohmann::json ToJson(const AuditEntry& entry);
nlohmann::json ToJson(const ActivateAnswer& answer);
nlohmann::json ToJson(const EngineHit& hit);
nlohmann::json ToJson(const JobStatus& job);  // A training has its losses by epoch.
nlohmann::json ToJson(const CanaryStatus& status);
nlohmann::json ToJson(const ProbeSetStatus& set);

// INVALID_ARGUMENT names `field`.
absl::StatusOr<ItemId> ItemIdFrom(const nlohmann::json& json, const std::string& field);

}  // namespace lightcone::server
