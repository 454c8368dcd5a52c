// The rows of a sealed segment on a device, and what is needed to bound the errors of their scores.
//
// float32: the stored vectors with their factors, as the kernels of the CPU read them. fp16: half codes of
// geometry/codes.h, those of the segment if it has such, else made here around the mean of the rows.
// Threads: immutable, but for the bits that are kept for the next search; all methods are safe concurrently.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "geometry/codes.h"
#include "index/gpu/device_memory.h"
#include "index/gpu/device_options.h"
#include "index/rows/segment.h"

namespace lightcone::gpu {

// A bit a row: whether it may be found.
struct DeviceBits {
  DeviceMemory memory;
};

class DeviceRows {
 public:
  // What is copied; it has to live until Make returns.
  struct Source {
    const Space* space = nullptr;
    const RowBlock* block = nullptr;
    const CodeBlock* codes = nullptr;  // nullptr: no half codes
    int64_t rows = 0;
  };

  ~DeviceRows();
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;

  static int64_t BytesOf(int64_t rows, int dimension, DeviceStorage storage);  // device memory that Make takes

  // RESOURCE_EXHAUSTED: it does not fit. DATA_LOSS: a number is not finite, which no row that was let in is; the row is
  // named. CANCELLED when `stop` says so. Any other error: the device is lost.
  static absl::StatusOr<std::shared_ptr<const DeviceRows>> Make(const std::shared_ptr<DeviceBudget>& budget,
                                                                const Source& source, DeviceStorage storage,
                                                                absl::FunctionRef<bool()> stop);

  int64_t count() const { return count_; }
  int dimension() const { return dimension_; }
  DeviceStorage storage() const { return storage_; }
  uint32_t vectors() const { return vectors_; }  // vectors of 16 bytes in a row
  uint32_t numbers() const { return vectors_ * (storage_ == DeviceStorage::kHalf ? 8 : 4); }
  int64_t bytes() const { return memory_.bytes(); }
  const void* rows() const { return memory_.at(); }
  const RowTail* tails() const { return reinterpret_cast<const RowTail*>(tails_at()); }
  // Centre, and bounds of error, norm and bias. float32: an error of 0, and norms of scale * z.
  const CodeBlock& bounds() const { return bounds_; }

  // The rows that `visible` says yes to, which a view of `view_generation` sees by these counts: kept, and given again
  // while they are the same. Errors as Make; that there was no room for them is kept too, until rows of some segment
  // go, so that no search asks about every row in vain. Two searches that need the same at once may both ask `visible`.
  absl::StatusOr<std::shared_ptr<const DeviceBits>> BitsOf(const std::shared_ptr<const StateCounts>& counts,
                                                           uint32_t view_generation,
                                                           absl::FunctionRef<bool(uint32_t)> visible) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct KeptBits {
    std::shared_ptr<const StateCounts> counts;  // held so that no other counts have its address
    uint32_t view_generation = 0;
    std::shared_ptr<const DeviceBits> bits;  // nullptr: no room when rows_gone had this value
    uint64_t rows_gone = 0;
  };

  DeviceRows() = default;
  absl::Status Copy(const Source& source, absl::FunctionRef<bool()> stop);
  void FindCentre(const Source& source);
  uint8_t* tails_at() const { return memory_.at() + count_ * vectors_ * 16; }
  const KeptBits* Kept(const std::shared_ptr<const StateCounts>& counts, uint32_t view_generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(KeptBits bits) const ABSL_LOCKS_EXCLUDED(mu_);
  void PackFloats(const Source& source, int64_t row, uint8_t* numbers, RowTail* tail);
  void PackHalves(const Source& source, int64_t row, std::vector<uint8_t>* coded, uint8_t* numbers, RowTail* tail);

  std::shared_ptr<DeviceBudget> budget_;
  int64_t count_ = 0;
  int dimension_ = 0;
  DeviceStorage storage_ = DeviceStorage::kHalf;
  uint32_t vectors_ = 0;
  DeviceMemory memory_;  // rows, then their tails: one allocation shows a lack of room at once
  bool whole_ = false;   // every row was copied
  std::vector<float> centre_;
  CodeBlock bounds_;

  mutable absl::Mutex mu_;
  mutable std::vector<KeptBits> kept_ ABSL_GUARDED_BY(mu_);  // the newest last
};

}  // namespace lightcone::gpu
