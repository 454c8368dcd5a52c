// Candidate queues and visited sets of HNSW's beam search (Malkov and Yashunin, arXiv 1603.09320, algorithm 2), for
// finished graphs (graph_walk.h) and growing ones (graph_inserter.h).
// Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "index/rows/scored_row.h"

namespace lightcone {

// A visited set: a new epoch clears its marks. Old marks are wiped a part at a time, before their epoch comes again.
// Small marks stay in the cache, large ones need less wiping.
template <typename Mark>
class VisitedMarks {
 public:
  void Begin(size_t rows) {
    if (marks_.size() < rows) {
      marks_.assign(rows, 0);
      epoch_ = 0;
      wiped_ = 0;
    }
    epoch_ = epoch_ == kEpochs ? Mark{1} : static_cast<Mark>(epoch_ + 1);
    const size_t end = std::min(marks_.size(), wiped_ + marks_.size() / (kEpochs - 1) + 1);
    std::fill(marks_.begin() + static_cast<std::ptrdiff_t>(wiped_), marks_.begin() + static_cast<std::ptrdiff_t>(end),
              0);
    wiped_ = end == marks_.size() ? 0 : end;
  }
  bool Test(uint32_t row) const { return marks_[row] == epoch_; }
  // No branch: no processor could predict it.
  bool TestAndSet(uint32_t row) {
    const bool was = marks_[row] == epoch_;
    marks_[row] = epoch_;
    return was;
  }

 private:
  static constexpr Mark kEpochs = std::numeric_limits<Mark>::max();

  std::vector<Mark> marks_;
  Mark epoch_ = 0;
  size_t wiped_ = 0;  // end of the marks wiped in this round
};
using Visited = VisitedMarks<uint8_t>;

struct BeamRow {
  float score = 0;
  uint32_t row : 30 = 0;  // row number below Graph::kRowsMax
  uint32_t accepted : 1 = 0;
  uint32_t expanded : 1 = 0;
};
// A row of one of several graphs that one search walks.
struct GraphRow : BeamRow {
  uint32_t graph = 0;
};

// A candidate queue holds the `breadth` best accepted rows, and other rows that are still to be expanded. Two classes,
// for narrow and for broad queues, have the same functions:
//   Wants(score)       whether a row of this score would be one of the best
//   Add(entry, leave)  adds a wanted row; calls leave(entry) for an accepted row that is none of the best any more.
//                      True: the added row is the next to be expanded
//   Peek, Next         the nearest row to be expanded, not farther than the last of the best; Next takes it. False:
//   none ForEach(take)      all rows
// Of rows as near as the last of the best, a broad queue expands those that fell off; a narrow one does not.
inline constexpr size_t kNarrowBeam = 1024;  // breadth from which on heaps are cheaper than moving entries

// One sorted list of accepted rows, which is the frontier as well: rows that fall off its end are never expanded.
template <typename Entry = BeamRow>
class ListBeam {
 public:
  explicit ListBeam(size_t breadth) { Begin(breadth); }
  void Begin(size_t breadth) {
    breadth_ = breadth;
    list_.clear();
    list_.reserve(std::min(breadth, kNarrowBeam) + 1);
    others_.clear();
    next_ = 0;
  }

  bool Wants(float score) const { return list_.size() < breadth_ || score > list_.back().score; }

  template <typename Leave>
  bool Add(const Entry& entry, const Leave& leave) {
    if (entry.accepted == 0) return AddOther(entry);
    size_t at = 0;
    for (size_t n = list_.size(); n > 0;) {
      const size_t half = (n + 1) / 2;
      at = list_[at + half - 1].score >= entry.score ? at + half : at;
      n -= half;
    }
    if (list_.size() == breadth_) {
      leave(list_.back());
      list_.pop_back();
    }
    list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(at), entry);
    if (at > next_) return false;
    next_ = entry.expanded == 0 ? at : next_ + 1;
    return entry.expanded == 0 && (others_.empty() || entry.score >= others_.front().score);
  }
  bool Add(const Entry& entry) {
    return Add(entry, [](const Entry&) {});
  }

  bool Peek(Entry* entry) const {
    if (OtherIsNext()) {
      *entry = others_.front();
    } else if (next_ < list_.size()) {
      *entry = list_[next_];
    } else {
      return false;
    }
    return true;
  }
  bool Next(Entry* entry) {
    if (!Peek(entry)) return false;
    if (OtherIsNext()) {
      std::pop_heap(others_.begin(), others_.end(), Worse);
      others_.pop_back();
      return true;
    }
    list_[next_].expanded = 1;
    while (next_ < list_.size() && list_[next_].expanded != 0) ++next_;
    return true;
  }

  template <typename Take>
  void ForEach(const Take& take) const {
    for (const Entry& entry : list_) take(entry);
    for (const Entry& entry : others_) take(entry);
  }

 private:
  bool AddOther(const Entry& entry) {
    if (entry.expanded != 0) return false;
    others_.push_back(entry);
    std::push_heap(others_.begin(), others_.end(), Worse);
    return others_.front().score == entry.score && OtherIsNext();
  }
  bool OtherIsNext() const {
    if (others_.empty()) return false;
    const float score = others_.front().score;
    if (next_ < list_.size()) return score > list_[next_].score;
    return list_.size() < breadth_ || score >= list_.back().score;
  }

  size_t breadth_ = 0;
  std::vector<Entry> list_;    // accepted, nearest first
  std::vector<Entry> others_;  // max-heap of rows not accepted that are to be expanded
  size_t next_ = 0;            // place of the first entry to be expanded; size or more: none
};

// Heaps of rows.
template <typename Entry = BeamRow>
class HeapBeam {
 public:
  explicit HeapBeam(size_t breadth) : breadth_(breadth) {}

  bool Wants(float score) const { return best_.size() < breadth_ || score > best_.front().score; }

  template <typename Leave>
  bool Add(const Entry& entry, const Leave& leave) {
    const Place place{entry.score, met_.size()};
    met_.push_back(entry);
    if (entry.accepted != 0) {
      best_.push_back(place);
      std::push_heap(best_.begin(), best_.end(), Better);
      if (best_.size() > breadth_) {
        std::pop_heap(best_.begin(), best_.end(), Better);
        leave(met_[best_.back().entry]);
        best_.pop_back();
      }
    }
    if (entry.expanded != 0) return false;
    frontier_.push_back(place);
    std::push_heap(frontier_.begin(), frontier_.end(), Worse);
    return frontier_.front().entry == place.entry;
  }
  bool Add(const Entry& entry) {
    return Add(entry, [](const Entry&) {});
  }

  bool Peek(Entry* entry) const {
    if (frontier_.empty()) return false;
    if (best_.size() >= breadth_ && frontier_.front().score < best_.front().score) return false;
    *entry = met_[frontier_.front().entry];
    return true;
  }
  bool Next(Entry* entry) {
    if (!Peek(entry)) return false;
    met_[frontier_.front().entry].expanded = 1;
    std::pop_heap(frontier_.begin(), frontier_.end(), Worse);
    frontier_.pop_back();
    return true;
  }

  template <typename Take>
  void ForEach(const Take& take) const {
    for (const Place& place : best_) take(met_[place.entry]);
    for (const Place& place : frontier_) {
      if (met_[place.entry].accepted == 0) take(met_[place.entry]);
    }
  }

 private:
  struct Place {
    float score = 0;
    size_t entry = 0;  // place in met_
  };

  const size_t breadth_;
  std::vector<Entry> met_;
  std::vector<Place> best_;      // min-heap of accepted rows
  std::vector<Place> frontier_;  // max-heap of rows to be expanded
};

}  // namespace lightcone
