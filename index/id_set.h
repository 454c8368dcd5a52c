// Sets of internal ids as compressed bitmaps (Roaring: Lemire et al., arXiv 1603.06549), and what a search takes from
// them: the ids whose rows it may look at.
// Threads: plain values; const methods are safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

namespace lightcone {

class IdSet {
 public:
  IdSet() = default;
  IdSet(const IdSet& other);
  IdSet(IdSet&& other) noexcept : parts_(std::exchange(other.parts_, {})) {}
  IdSet& operator=(IdSet other) noexcept {
    std::swap(parts_, other.parts_);
    return *this;
  }
  ~IdSet();

  bool Add(uint64_t id);     // false: it was in already
  void AddMany(std::span<const uint64_t> ids);
  bool Remove(uint64_t id);  // false: it was not in
  bool Contains(uint64_t id) const;
  bool empty() const { return parts_.empty(); }
  uint64_t Count() const;
  // Those in first .. last, both included.
  uint64_t CountIn(uint64_t first, uint64_t last) const;

  IdSet& operator|=(const IdSet& other);
  IdSet& operator&=(const IdSet& other);
  IdSet& operator-=(const IdSet& other);
  static IdSet Union(std::span<const IdSet* const> sets);

  // Ids of first .. last in ascending order, some hundreds a call, until `visit` says false.
  void ForEachIn(uint64_t first, uint64_t last, absl::FunctionRef<bool(std::span<const uint64_t>)> visit) const;

  size_t bytes() const;  // about, in memory

 private:
  // Ids of one upper half; never empty.
  struct Part {
    uint32_t upper = 0;
    void* lower = nullptr;  // roaring_bitmap_t, whose header stays in id_set.cc
  };

  const Part* Find(uint32_t upper) const;
  Part& Have(uint32_t upper);
  void DropEmpty();

  std::vector<Part> parts_;  // ascending
};

// The ids of a set, or all others.
struct IdFilter {
  IdSet ids;
  bool others = false;

  bool Contains(uint64_t id) const { return ids.Contains(id) != others; }
};

}  // namespace lightcone
