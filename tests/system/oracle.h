// What a collection must hold after a crash: for each item the last acknowledged write and, where a call was cut off,
// the one that may or may not have been applied.
// Threads: none; each writer owns the items of its own range.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "lightcone/v1/retrieval.pb.h"

namespace lightcone {

// The content of an item: a version number from which vector and payload follow; 0: it is not there.
using Version = uint64_t;

inline constexpr int kDimension = 8;

// Deterministic in item and version, with every norm from near the origin to beyond the clip.
inline std::vector<float> VectorOf(uint64_t item, Version version) {
  std::vector<float> vector(kDimension);
  uint64_t state = item * 0x9E3779B97F4A7C15ull + version * 0xD1B54A32D192ED03ull + 1;
  for (float& value : vector) {
    state ^= state >> 33;
    state *= 0xFF51AFD7ED558CCDull;
    state ^= state >> 29;
    value = static_cast<float>(static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5);
  }
  return vector;
}

inline std::string PayloadOf(uint64_t item, Version version) {
  return StrCat("{\"item\":", item, ",\"version\":", version, "}");
}

class Oracle {
 public:
  struct Entry {
    Version acknowledged = 0;
    std::optional<Version> pending;  // of a call whose answer never came
    int64_t pending_call = -1;
  };

  void Acknowledge(uint64_t item, Version version) { entries_[item] = {version, std::nullopt, -1}; }
  void LeaveOpen(uint64_t item, Version version, int64_t call) {
    entries_[item].pending = version;
    entries_[item].pending_call = call;
  }
  // After a restart: what is there is the truth from now on.
  void Settle(uint64_t item, Version seen) { entries_[item] = {seen, std::nullopt, -1}; }

  std::map<uint64_t, Entry>& entries() { return entries_; }

 private:
  std::map<uint64_t, Entry> entries_;
};

// Every acknowledged write is there, and of a batch that was cut off all or nothing. What is seen (0: nothing) is the
// truth from then on.
inline void ExpectKept(Oracle& oracle, const std::function<Version(uint64_t item)>& see) {
  std::map<int64_t, std::set<bool>> applied_by_call;
  for (const auto& [item, entry] : oracle.entries()) {
    const Version seen = see(item);
    const bool applied = entry.pending.has_value() && seen == *entry.pending;
    EXPECT_TRUE(seen == entry.acknowledged || applied)
        << "item " << item << " is at version " << seen << "; acknowledged was " << entry.acknowledged;
    // A cut-off delete of what was not there tells nothing; everything else shows whether its batch was applied.
    if (entry.pending.has_value() && *entry.pending != entry.acknowledged) {
      applied_by_call[entry.pending_call].insert(applied);
    }
  }
  for (const auto& [call, outcomes] : applied_by_call) EXPECT_EQ(outcomes.size(), 1u) << "half a batch is visible";
  for (const auto& [item, entry] : oracle.entries()) oracle.Settle(item, see(item));
}

}  // namespace lightcone
