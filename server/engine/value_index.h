// Which ids have which value, in the order of the values: ids of a frequent value as one set, rarer values side by side
// in buckets of about a thousand with one set a bucket. So a single value, some values and a range of values are each a
// union of a few sets and at most two parts of buckets.
// Threads: none of its own; const methods are safe together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "index/id_set.h"

namespace lightcone::server {

// Ids that are to be put together.
struct IdPieces {
  std::vector<const IdSet*> sets;
  std::vector<uint64_t> ids;

  IdSet Union() const {
    IdSet all = sets.size() == 1 ? *sets[0] : IdSet::Union(sets);
    all.AddMany(ids);
    return all;
  }
};

// T: ordered by <, copyable. An id may have several values.
template <typename T>
class ValueIndex {
 public:
  // Once more is no change.
  void Add(const T& value, uint64_t id) {
    auto at = BucketOf(value);
    if (at == buckets_.end() || ((*at)->single() && (*at)->least != value)) {
      // Before all others, or behind a bucket of one value: into the one that follows, if that has room for others.
      if (at != buckets_.end() && (*at)->least < value) ++at;
      if (at == buckets_.end() || (*at)->single()) {
        at = buckets_.insert(at, std::make_unique<Bucket>());
        (*at)->least = value;
        (*at)->entries.emplace_back(value, id);
        (*at)->ids.Add(id);
        return;
      }
    }
    Bucket& bucket = **at;
    bucket.ids.Add(id);
    if (bucket.single()) return;
    const std::pair<T, uint64_t> entry(value, id);
    const auto place = std::lower_bound(bucket.entries.begin(), bucket.entries.end(), entry);
    if (place != bucket.entries.end() && *place == entry) return;
    bucket.entries.insert(place, entry);
    bucket.least = bucket.entries.front().first;
    if (bucket.entries.size() > kBucketMax) Split(at);
  }

  // Of all values of an id, one after the other: in between, others of the same bucket may be gone as well. What is not
  // there is no change.
  void Remove(const T& value, uint64_t id) {
    const auto at = BucketOf(value);
    if (at == buckets_.end()) return;
    Bucket& bucket = **at;
    if (bucket.single()) {
      if (bucket.least == value) bucket.ids.Remove(id);
    } else {
      const std::pair<T, uint64_t> entry(value, id);
      const auto place = std::lower_bound(bucket.entries.begin(), bucket.entries.end(), entry);
      if (place == bucket.entries.end() || *place != entry) return;
      bucket.entries.erase(place);
      bucket.ids.Remove(id);
      if (!bucket.entries.empty()) bucket.least = bucket.entries.front().first;
    }
    if (bucket.ids.empty()) buckets_.erase(at);
  }

  // The ids of values that are neither below nor above. `below` is true for the least values up to some point, `above`
  // from some point on. The pieces point into this.
  template <typename Below, typename Above>
  void Collect(const Below& below, const Above& above, IdPieces* out) const {
    const auto first = std::partition_point(buckets_.begin(), buckets_.end(), [&](const std::unique_ptr<Bucket>& b) {
      return below(b->single() ? b->least : b->entries.back().first);
    });
    for (auto at = first; at != buckets_.end() && !above((*at)->least); ++at) {
      const Bucket& bucket = **at;
      if (bucket.single() || (!below(bucket.least) && !above(bucket.entries.back().first))) {
        out->sets.push_back(&bucket.ids);
        continue;
      }
      const auto begin = std::partition_point(bucket.entries.begin(), bucket.entries.end(),
                                              [&](const auto& entry) { return below(entry.first); });
      for (auto entry = begin; entry != bucket.entries.end() && !above(entry->first); ++entry) {
        out->ids.push_back(entry->second);
      }
    }
  }

  // About, in memory; texts beyond what a string holds in itself not counted.
  size_t bytes() const {
    size_t bytes = buckets_.capacity() * sizeof(buckets_[0]);
    for (const auto& bucket : buckets_) {
      bytes += sizeof(Bucket) + bucket->ids.bytes() + bucket->entries.capacity() * sizeof(bucket->entries[0]);
    }
    return bytes;
  }

 private:
  static constexpr size_t kBucketMax = 1'024;
  static constexpr size_t kSingleMin = 64;  // from here on a value gets a bucket of its own

  struct Bucket {
    T least{};
    IdSet ids;
    std::vector<std::pair<T, uint64_t>> entries;  // ascending; none: every id has the value `least`

    bool single() const { return entries.empty(); }
  };
  using Buckets = std::vector<std::unique_ptr<Bucket>>;  // ascending, none empty

  // The bucket that has the value or would have it; of values below all others the first. The end without any.
  typename Buckets::iterator BucketOf(const T& value) {
    const auto behind = std::upper_bound(buckets_.begin(), buckets_.end(), value,
                                         [](const T& v, const std::unique_ptr<Bucket>& b) { return v < b->least; });
    return behind == buckets_.begin() ? behind : std::prev(behind);
  }

  // Between two values near the middle; a bucket that is left with one frequent value forgets its entries.
  void Split(typename Buckets::iterator at) {
    auto& entries = (*at)->entries;
    const auto less = [](const auto& entry, const T& value) { return entry.first < value; };
    auto cut = std::lower_bound(entries.begin(), entries.end(), entries[entries.size() / 2].first, less);
    if (cut == entries.begin()) {
      cut = std::upper_bound(entries.begin(), entries.end(), entries.front().first,
                             [](const T& value, const auto& entry) { return value < entry.first; });
    }
    if (cut != entries.end()) {
      auto upper = std::make_unique<Bucket>();
      upper->entries.assign(std::make_move_iterator(cut), std::make_move_iterator(entries.end()));
      entries.erase(cut, entries.end());
      Settle(upper.get());
      Settle(at->get());
      buckets_.insert(at + 1, std::move(upper));
    } else {
      Settle(at->get());
    }
  }

  static void Settle(Bucket* bucket) {
    bucket->least = bucket->entries.front().first;
    std::vector<uint64_t> ids;
    ids.reserve(bucket->entries.size());
    for (const auto& [value, id] : bucket->entries) ids.push_back(id);
    bucket->ids = IdSet();
    bucket->ids.AddMany(ids);
    if (ids.size() >= kSingleMin && !(bucket->least < bucket->entries.back().first)) {
      bucket->entries = {};
    } else {
      bucket->entries.shrink_to_fit();
    }
  }

  Buckets buckets_;
};

}  // namespace lightcone::server
