// Saves what can still be read of a damaged store into a new one. The damaged store is only read. Log records behind
// the first damage of the log are not taken over, because they build on what is lost. Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace lightcone {

struct SalvageReport {
  struct LostRange {
    Table table;
    std::string begin, end;  // printable keys: the last row before the gap, and the first one behind it
  };
  std::vector<std::string> damage;              // damaged files and what is wrong with each, as sentences
  std::vector<LostRange> ranges;                // parts of tables that could not be read
  std::vector<std::string> values;              // rows whose value was damaged, by table and key
  std::array<uint64_t, kTableCount> rows = {};  // number of saved rows by table

  bool whole() const { return damage.empty() && ranges.empty() && values.empty(); }
};

// Copies every readable row of the store `from`, but for its change log, to a new store in `to`, a folder that must not
// exist yet. FAILED_PRECONDITION when `from` is no store of our format or `to` exists. UNAVAILABLE while `from` is in
// use. DATA_LOSS when nothing can be read. RESOURCE_EXHAUSTED when the disk has too little room for the copy.
absl::StatusOr<SalvageReport> SalvageStore(const std::string& from, const std::string& to);

}  // namespace lightcone
