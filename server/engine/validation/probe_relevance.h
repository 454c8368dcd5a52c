// The items that the probes of a collection have to find in the store. Threads: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

struct ProbeSet {
  std::string label_field;
  std::vector<Probe> probes;
};

struct ProbeTarget {
  // Internal ids, ascending. Probes of one label share them. The probe's own item may be among them.
  std::shared_ptr<const std::vector<uint64_t>> relevant;
  uint64_t own = 0;  // 0: none

  bool IsRelevant(uint64_t internal_id) const;
};

struct ProbeTargets {
  std::vector<ProbeTarget> targets;  // one a probe of all sets, in order
  uint64_t missing_items = 0;        // items that probes name and that are gone, counted for each probe
};

// Walks over all items if a probe has a label. CANCELLED once `cancelled` returns true; DATA_LOSS.
absl::StatusOr<ProbeTargets> FindTargets(const Collection& collection, const std::vector<ProbeSet>& sets,
                                         const std::function<bool()>& cancelled);

}  // namespace lightcone::server
