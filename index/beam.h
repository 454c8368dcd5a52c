// The beam search of HNSW (Malkov and Yashunin, arXiv 1603.09320, algorithm 2), over the links of a finished graph
// (graph_walk.h) and of one that grows (graph_inserter.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lightcone {

struct ScoredRow {
  float score = 0;  // higher is nearer
  uint32_t row = 0;
};

// Objects, not functions: heaps call them inline.
inline constexpr auto Better = [](const ScoredRow& x, const ScoredRow& y) { return x.score > y.score; };
inline constexpr auto Worse = [](const ScoredRow& x, const ScoredRow& y) { return x.score < y.score; };

// Marks of visited rows: a new epoch clears them. One a thread.
class Visited {
 public:
  void Begin(size_t rows) {
    if (marks_.size() < rows) marks_.resize(rows, 0);
    if (++epoch_ == 0) {
      std::fill(marks_.begin(), marks_.end(), 0);
      epoch_ = 1;
    }
  }
  bool Test(uint32_t row) const { return marks_[row] == epoch_; }
  // Without a branch, which nobody could predict.
  bool TestAndSet(uint32_t row) {
    const bool was = marks_[row] == epoch_;
    marks_[row] = epoch_;
    return was;
  }

 private:
  std::vector<uint8_t> marks_;
  uint8_t epoch_ = 0;
};

struct BeamRow {
  float score = 0;
  uint32_t row : 30 = 0;  // more than the rows of a segment (settings.h)
  uint32_t accepted : 1 = 0;
  uint32_t expanded : 1 = 0;
};
// Of one of several graphs that one search walks.
struct GraphRow : BeamRow {
  uint32_t graph = 0;
};

// The best rows that a search has met, nearest first: up to `breadth` that are accepted, and those nearer than the last of
// them that are not. The same as HNSW's two heaps: the rows that are still to be expanded are those of the list that were
// not, for whatever falls off its end would never be expanded.
template <typename Entry = BeamRow>
class Beam {
 public:
  explicit Beam(size_t breadth) { Begin(breadth); }
  void Begin(size_t breadth) {
    breadth_ = breadth;
    list_.clear();
    list_.reserve(std::min(breadth, kReservedMax) + 1);
    accepted_ = next_ = 0;
  }

  bool Wants(float score) const { return accepted_ < breadth_ || score > list_.back().score; }

  // Behind those of the same score; leave(entry) is called for each that falls off. True when it is the next to be
  // expanded. REQUIRES: Wants(entry.score).
  template <typename Leave>
  bool Add(const Entry& entry, const Leave& leave) {
    size_t at = 0;
    for (size_t n = list_.size(); n > 0;) {
      const size_t half = (n + 1) / 2;
      at = list_[at + half - 1].score >= entry.score ? at + half : at;
      n -= half;
    }
    list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(at), entry);
    accepted_ += entry.accepted;
    while (accepted_ > breadth_ || (accepted_ == breadth_ && list_.back().accepted == 0)) {
      accepted_ -= list_.back().accepted;
      leave(list_.back());
      list_.pop_back();
    }
    if (at > next_) return false;
    next_ = entry.expanded == 0 ? at : next_ + 1;
    return entry.expanded == 0;
  }
  bool Add(const Entry& entry) {
    return Add(entry, [](const Entry&) {});
  }

  // The nearest row that is not expanded yet; false: there is none.
  bool Peek(Entry* entry) const {
    if (next_ >= list_.size()) return false;
    *entry = list_[next_];
    return true;
  }
  // The same, and it counts as expanded.
  bool Next(Entry* entry) {
    if (!Peek(entry)) return false;
    list_[next_].expanded = 1;
    while (next_ < list_.size() && list_[next_].expanded != 0) ++next_;
    return true;
  }

  const std::vector<Entry>& list() const { return list_; }

 private:
  static constexpr size_t kReservedMax = 1024;

  size_t breadth_ = 0, accepted_ = 0;
  size_t next_ = 0;  // the first that is not expanded; the list's end or behind it: there is none
  std::vector<Entry> list_;
};

}  // namespace lightcone
