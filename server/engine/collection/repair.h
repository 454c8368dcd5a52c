// Saves what can be saved of a damaged data folder into a new one. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::server {

struct RepairReport {
  struct OfCollection {
    uint32_t number = 0;
    std::string name;               // empty: the collection's record is lost, and the collection with it
    uint64_t items = 0;             // number of items in the new folder
    uint64_t items_lost = 0;        // at least so many items are lost
    uint64_t inputs_lost = 0;       // number of saved items whose raw input is lost
    std::vector<std::string> lost;  // ids of lost items, as far as they are known; at most kLostNamesMax
    std::string refused;            // why a server will refuse the collection; empty: it will serve it
  };
  static constexpr size_t kLostNamesMax = 1'000;

  std::vector<std::string> damage;  // damaged files and parts of tables, one sentence each
  std::vector<OfCollection> collections;

  // Whether nothing was lost.
  bool whole() const {
    return damage.empty() && std::all_of(collections.begin(), collections.end(), [](const OfCollection& one) {
             return one.items_lost == 0 && one.inputs_lost == 0 && one.refused.empty();
           });
  }
};

// Reads the data folder `from`, which no server may use, and writes a new one to `to`, which must not exist yet. The
// new folder appears under its name once it is complete; it has no index, which the first start builds. `from` stays as
// it is. FAILED_PRECONDITION, UNAVAILABLE, DATA_LOSS and RESOURCE_EXHAUSTED as SalvageStore (store/salvage.h).
absl::StatusOr<RepairReport> RepairDataFolder(const std::string& from, const std::string& to);

}  // namespace lightcone::server
