// Builds an HNSW graph (Malkov and Yashunin, arXiv 1603.09320, algorithms 1, 3 and 4) in the layout of graph.h.
// Why not by FAISS: its insertion asks for one distance at a time, at addresses that nobody could ask memory for ahead
// (docs/benchmarks/search.md); here a row's links are scored together, and the graph is written where it will stay.
// Copies of a row (blank images) are no points of it: they would fill one another's lists, and nothing would lead out.
// The graph is one of distinct rows; copies get the links of the row that they are copies of, and links to one another.
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

// scores[i] = how near row `x` is to row ids[i], higher is nearer, the same both ways. From any thread.
using PairScorer = absl::FunctionRef<void(uint32_t x, const uint32_t* ids, size_t n, float* scores)>;
// Whether rows `x` and `y`, with `score` between them, are the same as far as scores can tell. From any thread.
using CopyTest = absl::FunctionRef<bool(uint32_t x, uint32_t y, float score)>;

class GraphInserter {
 public:
  // Draws the rows' layers and makes room for their links: m a row, 2m on the base layer. `breadth` is that of the
  // search for a row's neighbours. What `score` and `is_copy` refer to must outlive this.
  // REQUIRES: 1 <= rows <= Graph::kRowsMax; m >= 2.
  GraphInserter(int64_t rows, int m, int breadth, PairScorer score, CopyTest is_copy);
  GraphInserter(const GraphInserter&) = delete;
  GraphInserter& operator=(const GraphInserter&) = delete;

  // Inserts every row, those of the highest layers first and else in a drawn order, with `threads` threads.
  // Deterministic with one. False soon after `stop` says so, which the calling thread asks every few hundred rows.
  // Throws std::bad_alloc. Once.
  bool InsertAll(int threads, absl::FunctionRef<bool()> stop);

  // The bytes of the graph (graph.h), after InsertAll said true. Once.
  std::string Take() { return std::move(bytes_); }

 private:
  struct List {
    int32_t* links;
    float* scores;
    size_t width;
  };
  // What a thread works with.
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
  // Links of `row` that were not visited, scored for `x`; their number.
  size_t Expand(uint32_t x, uint32_t row, int layer, Scratch& scratch);
  ScoredRow Descend(uint32_t x, int to_layer, Scratch& scratch);
  // scratch.found: the rows of the layer that a search from `start` finds nearest to `x`, nearest first.
  void FindNearest(uint32_t x, ScoredRow start, int layer, Scratch& scratch);
  void Insert(uint32_t x, Scratch& scratch);
  // Notes that `x`, whose lists above `layer` are written, is a copy of the row `of`.
  void NoteCopy(uint32_t x, uint32_t of, int layer);
  // Gives the copies their links, after all rows are inserted.
  void AttachCopies();
  // A row with copies is inserted early (one of them is on a high layer); where it is near to everything, rows that
  // came soon after it were left out by all that they chose. Links to rows that nothing leads to, where there is room.
  void LinkLost();
  // The base lists of a row and its copies, group[0] and the others: an eighth leads to one another.
  void LinkGroup(std::span<const uint32_t> group);
  // scratch.kept: up to `width` of `candidates`, which come nearest first, each nearer to its own row than to any that
  // was kept before (algorithm 4).
  void Choose(std::span<const ScoredRow> candidates, size_t width, Scratch& scratch) const;
  static void Write(const List& list, std::span<const ScoredRow> links);
  // Links row `from` to row `to`, with `score` between them, and thins the links of `from` where they are too many.
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
  std::unique_ptr<std::atomic_flag[]> locks_;      // one lock a row, for writers
};

}  // namespace lightcone
