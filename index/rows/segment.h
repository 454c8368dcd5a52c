// A segment: rows of one generation in one contiguous block, growing (in memory) or sealed (mapped files).
//
// Threads: rows below a published count (view.h) never change, except for their states, which are atomic. The index's
// mutex guards `counts` and everything called "writer".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "geometry/codes.h"
#include "geometry/metric.h"
#include "geometry/row_factors.h"
#include "index/api/collection_index.h"
#include "index/rows/device_copy.h"
#include "index/rows/row_states.h"

namespace lightcone {

class Graph;
class Lists;
class PqCodes;

// Row i: `dimension` floats at rows + i * stride (the vector before the clip), factors[i], ids[i], uncertainty[i].
struct RowBlock {
  const float* rows = nullptr;
  size_t stride = 0;  // floats
  const RowFactors* factors = nullptr;
  const uint64_t* ids = nullptr;
  const float* uncertainty = nullptr;
};

// The recall that was measured with one breadth of a segment's searches.
struct RecallAt {
  int breadth = 0;  // `ef` of a walk, or the number of probed lists
  double recall = 0;
};

// Floats from row to row. Rows start on cache lines where that costs at most an eighth more memory.
inline size_t StrideOf(int dimension) {
  const size_t n = static_cast<size_t>(dimension);
  const size_t padded = (n + 15) / 16 * 16;
  return padded * 8 <= n * 9 ? padded : n;
}

// The space without curvature and clip radius where the metric ignores them, so that equal spaces compare equal.
inline Space Normalized(Space space) {
  if (space.metric != Metric::kLorentz) space.curvature = space.clip_radius = 1;
  return space;
}

// The number of a segment's rows in each state other than live. Immutable once shared.
struct StateCounts {
  int64_t rows = 0;
  std::vector<std::pair<uint32_t, int64_t>> by_state;  // superseding generation or kDeleted, in any order

  int64_t Of(uint32_t state) const {
    for (const auto& [s, n] : by_state) {
      if (s == state) return n;
    }
    return 0;
  }
  void Move(uint32_t from, uint32_t to) {
    Add(from, -1);
    Add(to, 1);
  }
  void Add(uint32_t state, int64_t n) {
    if (state == kLive) return;
    for (auto& [s, count] : by_state) {
      if (s == state) {
        count += n;
        return;
      }
    }
    by_state.emplace_back(state, n);
  }
  // Rows that a view of this generation serves.
  int64_t Visible(uint32_t view_generation) const {
    int64_t n = rows;
    for (const auto& [state, count] : by_state) {
      if (state == kDeleted || state <= view_generation) n -= count;
    }
    return n;
  }
};

class Segment {
 public:
  virtual ~Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint64_t id() const { return id_; }
  uint32_t generation() const { return generation_; }
  const Space& space() const { return space_; }
  const RowBlock& block() const { return block_; }
  const RowStates& states() const { return *states_seen_; }
  std::span<const float> row(int64_t i) const {
    return {block_.rows + static_cast<size_t>(i) * block_.stride, static_cast<size_t>(space_.dimension)};
  }

  // Whether the segment's files turned out to be damaged; once true, always true. A search asks after it has read: rows
  // of a damaged segment are worth nothing.
  bool damaged() const { return damaged_.load(std::memory_order_acquire); }
  void MarkDamaged() const { damaged_.store(true, std::memory_order_release); }

  virtual std::string_view kind() const = 0;            // "growing", "flat", "hnsw", "ivf"
  virtual bool ordered_by_id() const { return false; }  // rows ascend by internal id
  virtual const Graph* graph() const { return nullptr; }
  virtual const Lists* lists() const { return nullptr; }
  // Codes of all rows, at the same places; nullptr where there are none, or more rows may come.
  virtual const CodeBlock* codes() const { return nullptr; }
  virtual const PqCodes* pq() const { return nullptr; }              // codes of IVF segments alone, instead of codes()
  virtual std::span<const RecallAt> measured() const { return {}; }  // recall measured at sealing, breadth ascending
  virtual bool provisional() const { return false; }                 // SegmentManifest::provisional
  virtual bool lasting() const { return false; }  // The rows never change, and later searches will read them.
  gpu::DeviceCopy& device_copy() const { return device_copy_; }

  // Writer only from here.
  int64_t rows() const { return counts_.rows; }
  float bias_max() const { return bias_max_; }
  const StateCounts& counts() const { return counts_; }
  virtual std::optional<int64_t> Find(uint64_t internal_id) const = 0;  // the live row of this id
  // The codes of the present rows; an empty block where there are none.
  virtual CodeBlock PinCodes() const { return codes() == nullptr ? CodeBlock() : *codes(); }
  // Name of what searches read first of a row: "float32", "int8", "fp16", "pq".
  std::string_view codes_name() const {
    if (pq() != nullptr) return RowCodesName(RowCodes::kPq);
    const CodeBlock pinned = PinCodes();
    if (pinned.rows == nullptr) return RowCodesName(RowCodes::kFloat32);
    return RowCodesName(pinned.kind == CodeKind::kInt8 ? RowCodes::kInt8 : RowCodes::kHalf);
  }
  virtual int64_t mapped_bytes() const = 0;
  virtual int64_t heap_bytes() const = 0;

  // Records that a live row changed its state at `sequence`. Returns whether it had another state.
  bool SetState(int64_t row, uint32_t state, uint64_t sequence) {
    const uint32_t old = states_.Get(static_cast<size_t>(row));
    if (old == state) return false;
    counts_.Move(old, state);
    states_.Set(static_cast<size_t>(row), state, sequence);
    pinned_counts_.reset();
    dirty_ = true;
    return true;
  }

  // The counts as an immutable value for views, shared until the next change.
  std::shared_ptr<const StateCounts> PinCounts() {
    if (pinned_counts_ == nullptr) pinned_counts_ = std::make_shared<const StateCounts>(counts_);
    return pinned_counts_;
  }

  // Whether states changed that the state file does not hold yet.
  bool dirty() const { return dirty_; }
  void set_dirty(bool dirty) { dirty_ = dirty; }

 protected:
  Segment(uint64_t id, uint32_t generation, const Space& space) : id_(id), generation_(generation), space_(space) {}

  const uint64_t id_;
  const uint32_t generation_;
  const Space space_;
  RowBlock block_;
  RowStates states_;
  const RowStates* states_seen_ = &states_;  // states of the carried segment where there is one
  StateCounts counts_;
  float bias_max_ = 0;  // largest bias factor of the rows
  bool dirty_ = false;
  mutable std::atomic<bool> damaged_{false};  // stands before the mappings that raise it
  mutable gpu::DeviceCopy device_copy_;       // copy of a lasting segment

 private:
  friend class GrowingSegment;
  std::shared_ptr<const StateCounts> pinned_counts_;
};

}  // namespace lightcone
