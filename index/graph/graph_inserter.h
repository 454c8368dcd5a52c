// Builds an HNSW graph (Malkov and Yashunin, arXiv 1603.09320, algorithms 1, 3 and 4) in the layout of graph.h.
// Why not FAISS: its insertion computes one distance at a time, at addresses that cannot be prefetched. Here a row's
// links are scored together, and the graph is written where it will stay.
// The graph has distinct rows: copies of a row (blank images) would fill one another's lists, and nothing would lead
// out. Copies get the links of the original row, and links to one another.
// Threads: one owner; InsertAll starts threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/graph/beam.h"

namespace lightcone {

// scores[i] = how near row `x` is to row ids[i]: symmetric, higher is nearer. Called from any thread.
using PairScorer = absl::FunctionRef<void(uint32_t x, const uint32_t* ids, size_t n, float* scores)>;
// Whether rows `x` and `y`, whose score is `score`, are the same as far as scores can tell. Called from any thread.
using CopyTest = absl::FunctionRef<bool(uint32_t x, uint32_t y, float score)>;

class GraphInserter {
 public:
  // Draws the rows' layers and makes room for their links: m a row, 2m on the base layer. `breadth` is the breadth of
  // the search for a row's neighbours. `score` and `is_copy` must outlive this. REQUIRES: 1 <= rows <= Graph::kRowsMax;
  // m >= 2.
  GraphInserter(int64_t rows, int m, int breadth, PairScorer score, CopyTest is_copy);
  GraphInserter(const GraphInserter&) = delete;
  GraphInserter& operator=(const GraphInserter&) = delete;

  // Inserts every row with `threads` threads: rows of the highest layers first, else in a drawn order. Deterministic
  // with one thread. False soon after `stop`, which the calling thread asks, says so. Throws std::bad_alloc. Called
  // once.
  bool InsertAll(int threads, absl::FunctionRef<bool()> stop);

  // The bytes of the graph (graph.h), after InsertAll returned true. Called once.
  std::string Take() { return std::move(bytes_); }

 private:
  struct List {
    int32_t* links;
    float* scores;
    size_t width;
  };
  // The buffers of one thread.
  struct Scratch {
    VisitedMarks<uint16_t> visited;
    ListBeam<> beam{1};
    std::vector<ScoredRow> found, kept;
    std::vector<std::vector<ScoredRow>> links;  // links chosen on each layer
    std::vector<uint32_t> ids;
    std::vector<float> scores;
  };

  List ListOf(uint32_t row, int layer);
  int TopOf(uint32_t row) const { return static_cast<int>(upper_first_[row + 1] - upper_first_[row]); }
  // Scores the unvisited links of `row` for `x`, and returns their number.
  size_t Expand(uint32_t x, uint32_t row, int layer, Scratch& scratch);
  ScoredRow Descend(uint32_t x, int to_layer, Scratch& scratch);
  // Sets scratch.found to the layer's rows that a search from `start` finds nearest to `x`, nearest first.
  void FindNearest(uint32_t x, ScoredRow start, int layer, Scratch& scratch);
  void Insert(uint32_t x, Scratch& scratch);
  // Records that `x`, whose lists above `layer` are written, is a copy of row `of`.
  void NoteCopy(uint32_t x, uint32_t of, int layer);
  // Gives the copies their links, after all rows are inserted.
  void AttachCopies();
  // Links rows that no link leads to from near rows that have room. They arise where a row with copies, inserted early
  // and near to everything, kept the rows that came soon after it out of all lists.
  void LinkLost();
  // Writes the base lists of a row, group[0], and its copies: an eighth of their links lead to one another.
  void LinkGroup(std::span<const uint32_t> group);
  // Sets scratch.kept to at most `width` of `candidates`, which come nearest first: each is nearer to its own row than
  // to every row kept before (algorithm 4).
  void Choose(std::span<const ScoredRow> candidates, size_t width, Scratch& scratch) const;
  static void Write(const List& list, std::span<const ScoredRow> links);
  // Links row `from` to row `to`, whose score is `score`, and thins the links of `from` where they are too many.
  void Connect(uint32_t from, uint32_t to, float score, int layer, Scratch& scratch);

  const PairScorer score_;
  const CopyTest is_copy_;
  const size_t breadth_;
  size_t base_width_ = 0, upper_width_ = 0;
  std::vector<uint32_t> order_;  // order_[0] reaches every layer: the entry from first to last
  std::string bytes_;
  int32_t* base_ = nullptr;                        // pointer into bytes_
  uint32_t* upper_first_ = nullptr;                // pointer into bytes_
  int32_t* upper_ = nullptr;                       // pointer into bytes_
  std::vector<float> base_scores_, upper_scores_;  // scores of the links, under the row's lock
  std::vector<uint32_t> copy_of_;                  // the row that a row is a copy of; itself: no copy
  std::unique_ptr<std::atomic_flag[]> locks_;      // locks of rows, for writers
};

}  // namespace lightcone
