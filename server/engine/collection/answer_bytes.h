// The size of an answer, counted while it is made: what would become too large ends before it is in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// About the bytes that these take on the wire; of an item rather more than less, for pages are cut by it.
inline constexpr int64_t kHitBytes = 48;  // the numbers of a hit, or an id, with their tags and lengths
int64_t BytesOf(const ItemId& id);
int64_t BytesOf(const StoredItem& item);

// Threads: every method is safe from any thread.
class AnswerBytes {
 public:
  // `bytes_max` 0: no limit.
  explicit AnswerBytes(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // As status(), with these.
  absl::Status Add(int64_t bytes);
  // RESOURCE_EXHAUSTED that names limits.answer_bytes_max when there are more.
  absl::Status status() const;

 private:
  const int64_t bytes_max_;
  std::atomic<int64_t> bytes_{0};
};

// How many records to read at once: fewer, where they turn out to be large. Threads: one owner.
class ReadSize {
 public:
  size_t Of(size_t left) const { return std::min(left, records_); }
  // What the last ones took.
  void Note(int64_t bytes) {
    records_ = bytes < kBytes ? std::min(2 * records_, kRecordsMax) : std::max<size_t>(1, records_ / 2);
  }

 private:
  static constexpr int64_t kBytes = 4 << 20;
  static constexpr size_t kRecordsMax = 4'096;
  size_t records_ = 64;
};

}  // namespace lightcone::server
