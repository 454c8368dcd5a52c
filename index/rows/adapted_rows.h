// Rows of a generation as an item adapter maps them into another space: a cache in memory, block by block, so that only
// the first scan of a block pays for the adapter. A budget bounds it. Blocks of segments that are gone make room for
// new ones.
//
// Why: no query can walk a gallery into whose space neither compatible training nor a query adapter leads. Searches
// scan its adapted rows, by the same kernels as any other row. Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "geometry/adapter.h"
#include "geometry/aligned.h"
#include "geometry/row_factors.h"
#include "index/rows/segment.h"

namespace lightcone {

// Memory or disk that all caches of one program share.
class AdaptedBudget {
 public:
  explicit AdaptedBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // False, without taking anything, when less than `bytes` is left.
  bool Take(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    while (used + bytes <= bytes_max_) {
      if (used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void Give(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t left() const { return bytes_max_ - used(); }

 private:
  const int64_t bytes_max_;
  std::atomic<int64_t> used_{0};
};

// Adapted rows, side by side.
struct AdaptedBlock {
  AlignedFloats rows;               // `stride` floats from row to row
  size_t stride = 0;                // stride of the target space
  std::vector<RowFactors> factors;  // factors of each row
  std::vector<uint8_t> valid;       // 0: the result is no vector of the target space; the row is zeros
  float bias_max = 0;               // largest bias of the rows
};

// Adapts `n` rows that are `stride` floats apart. REQUIRES: they are vectors of the adapter's input space.
AdaptedBlock AdaptBlock(const Adapter& adapter, const float* rows, size_t stride, int64_t n);

class AdaptedRows {
 public:
  static constexpr int64_t kRowsABlock = 512;

  // The adapter must outlive the cache.
  AdaptedRows(const Adapter* adapter, std::shared_ptr<AdaptedBudget> budget);
  ~AdaptedRows();
  AdaptedRows(const AdaptedRows&) = delete;
  AdaptedRows& operator=(const AdaptedRows&) = delete;

  // The block of the segment's rows from `begin` on, adapted now unless it is kept; nullptr when the budget is spent.
  // REQUIRES: `begin` is a multiple of kRowsABlock, and all rows of the block are published.
  std::shared_ptr<const AdaptedBlock> Get(const std::shared_ptr<const Segment>& segment, int64_t begin);

  // The block if it is kept, else nullptr.
  std::shared_ptr<const AdaptedBlock> Find(const std::shared_ptr<const Segment>& segment, int64_t begin) const;

  // Drop all blocks, or one segment's. Searches that hold a block keep it.
  void Clear();
  void Forget(const std::shared_ptr<const Segment>& segment);

  int64_t bytes() const;  // bytes of the blocks kept

 private:
  struct Entry {
    std::weak_ptr<const Segment> segment;  // The key may be the address of another segment by now.
    std::vector<std::shared_ptr<const AdaptedBlock>> blocks;
  };

  std::shared_ptr<const AdaptedBlock> Keep(const std::shared_ptr<const Segment>& segment, size_t block,
                                           std::shared_ptr<const AdaptedBlock> made);
  void GiveBack(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropStale() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Adapter* const adapter_;
  const std::shared_ptr<AdaptedBudget> budget_;
  const int64_t block_bytes_;

  mutable absl::Mutex mu_;
  absl::flat_hash_map<const Segment*, Entry> entries_ ABSL_GUARDED_BY(mu_);
  int64_t blocks_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace lightcone
