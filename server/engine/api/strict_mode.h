// Strict mode: limits of one collection's calls, below the server's (docs/operate/strict-mode.md).
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace lightcone::server {

// What is absent is not limited beside the server's own limits. A bound of 0 is none.
struct StrictMode {
  std::optional<bool> enabled;                 // whether the other members hold; absent: they do not
  std::optional<bool> allow_unindexed_reads;   // filters without an index in calls that read; absent: allowed
  std::optional<bool> allow_unindexed_writes;  // the same in calls that delete, or change payloads
  std::optional<bool> allow_exact;             // SearchCall::exact; absent: allowed
  std::optional<uint32_t> k_max;               // hits of one query
  std::optional<uint32_t> ef_max;              // SearchCall::ef and SearchCall::nprobe
  std::optional<uint32_t> queries_max;         // queries of one search
  std::optional<uint32_t> batch_items_max;     // items of one upsert or change of payloads
  std::optional<uint32_t> payload_bytes_max;   // payload of one item

  friend bool operator==(const StrictMode&, const StrictMode&) = default;

  bool Refuses(std::optional<bool> StrictMode::*allowed) const {
    return enabled.value_or(false) && !(this->*allowed).value_or(true);
  }
  // 0: none.
  uint32_t Bound(std::optional<uint32_t> StrictMode::*bound) const {
    return enabled.value_or(false) ? (this->*bound).value_or(0) : 0;
  }
};

// Calls visit(name, member, help) for each member. The stored record, the wire, the command line and the JSON have them
// by these names.
template <typename Visit>
void ForEachStrictMember(const Visit& visit) {
  visit("enabled", &StrictMode::enabled, "Whether the collection's strict mode is on: true or false");
  visit("allow_unindexed_reads", &StrictMode::allow_unindexed_reads,
        "Strict mode: whether searches, scrolls, counts and facets may filter without an index: true or false");
  visit("allow_unindexed_writes", &StrictMode::allow_unindexed_writes,
        "Strict mode: whether deletions and changes of payloads may filter without an index: true or false");
  visit("allow_exact", &StrictMode::allow_exact, "Strict mode: whether searches may be exact: true or false");
  visit("k_max", &StrictMode::k_max, "Strict mode: most hits of one query; 0: the server's limit");
  visit("ef_max", &StrictMode::ef_max, "Strict mode: largest ef or nprobe of a search; 0: the server's limit");
  visit("queries_max", &StrictMode::queries_max, "Strict mode: most queries of one search; 0: the server's limit");
  visit("batch_items_max", &StrictMode::batch_items_max,
        "Strict mode: most items of one upsert or change of payloads; 0: the server's limit");
  visit("payload_bytes_max", &StrictMode::payload_bytes_max,
        "Strict mode: most bytes of an item's payload; 0: the server's limit");
}

// `before` with the members that `change` has.
inline StrictMode Changed(StrictMode before, const StrictMode& change) {
  ForEachStrictMember([&](const char*, auto member, const char*) {
    if (change.*member) before.*member = change.*member;
  });
  return before;
}

}  // namespace lightcone::server
