// Sets of internal ids as compressed bitmaps (Roaring: Lemire et al., arXiv 1603.06549), and what a search takes from
// them: the ids whose rows it may look at.
// Threads: plain values; const methods are safe from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
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

  bool Add(uint64_t id);  // false: the set had the id already
  void AddMany(std::span<const uint64_t> ids);
  bool Remove(uint64_t id);  // false: the set did not have the id
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

  size_t bytes() const;  // approximate bytes in memory

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

// A condition on ids that is asked of one after another where a set of all that meet it would be large, and most of
// them never looked at. Immutable for ids that a view shows. Threads: const methods are safe from any thread.
class IdTest {
 public:
  virtual ~IdTest() = default;
  // Some nanoseconds.
  virtual bool Holds(uint64_t id) const = 0;
  // False: none of first .. last does. A look at a few numbers for every few thousand ids.
  virtual bool MayHold(uint64_t first, uint64_t last) const = 0;
  // Ids that met it when it was made, and their share of all, about.
  virtual uint64_t Count() const = 0;
  virtual double Share() const = 0;
};

// The ids of a set, or all others, that meet every test.
struct IdFilter {
  IdSet ids;
  bool others = false;
  std::vector<std::shared_ptr<const IdTest>> tests;

  bool Contains(uint64_t id) const { return ids.Contains(id) != others && MeetsTests(id); }
  bool MeetsTests(uint64_t id) const {
    for (const auto& test : tests) {  // No all_of: most filters have no test, and the call would cost.
      if (!test->Holds(id)) return false;
    }
    return true;
  }
  // Whether every id passes.
  bool all() const { return others && ids.empty() && tests.empty(); }
  // Which share passes of this many ids, as far as its parts know nothing of one another.
  double Share(uint64_t of) const {
    const auto share_of = [of](uint64_t n) {
      return of == 0 ? 0 : std::min(1.0, static_cast<double>(n) / static_cast<double>(of));
    };
    double share = others ? 1 - share_of(ids.Count()) : share_of(ids.Count());
    for (const auto& test : tests) share *= share_of(test->Count());
    return share;
  }
  // At most so many of this many pass.
  uint64_t CountMax(uint64_t of) const {
    const uint64_t listed = std::min(of, ids.Count());
    uint64_t most = others ? of - listed : listed;
    for (const auto& test : tests) most = std::min(most, test->Count());
    return most;
  }
  bool MayHold(uint64_t first, uint64_t last) const {
    return std::all_of(tests.begin(), tests.end(), [=](const auto& test) { return test->MayHold(first, last); });
  }
};

}  // namespace lightcone
