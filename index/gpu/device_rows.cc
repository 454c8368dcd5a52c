#include "index/gpu/device_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/status.h"
#include "index/gpu/scan_bounds.h"

namespace lightcone::gpu {
namespace {

constexpr int64_t kCopyBytes = 8 << 20;   // bytes packed and copied at a time
constexpr int64_t kCentreRows = 100'000;  // rows whose mean is the centre; any centre gives right answers
constexpr size_t kBitsKept = 3;           // bitmaps kept of a segment, for views of as many generations

int64_t PaddedTo(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Of 16 bytes in a row.
int64_t VectorsOf(int dimension, DeviceStorage storage) {
  const size_t bytes = storage == DeviceStorage::kHalf ? CodeFactorsAt(CodeKind::kHalf, dimension)
                                                       : static_cast<size_t>(dimension) * sizeof(float);
  return PaddedTo(static_cast<int64_t>(bytes), 16) / 16;
}

}  // namespace

DeviceRows::~DeviceRows() {
  if (!whole_) return;
  {
    absl::MutexLock lock(&mu_);
    kept_.clear();
  }
  memory_ = DeviceMemory();
  budget_->CountRowsGone();  // The memory is free by now.
}

int64_t DeviceRows::BytesOf(int64_t rows, int dimension, DeviceStorage storage) {
  return rows * (VectorsOf(dimension, storage) * 16 + static_cast<int64_t>(sizeof(RowTail)));
}

absl::StatusOr<std::shared_ptr<const DeviceRows>> DeviceRows::Make(const std::shared_ptr<DeviceBudget>& budget,
                                                                   const Source& source, DeviceStorage storage,
                                                                   absl::FunctionRef<bool()> stop) {
  std::shared_ptr<DeviceRows> rows(new DeviceRows);
  rows->budget_ = budget;
  rows->count_ = source.rows;
  rows->dimension_ = source.space->dimension;
  rows->storage_ = storage;
  rows->vectors_ = static_cast<uint32_t>(VectorsOf(rows->dimension_, storage));
  LC_ASSIGN_OR_RETURN(rows->memory_, budget->Take(BytesOf(source.rows, rows->dimension_, storage)));
  LC_RETURN_IF_ERROR(rows->Copy(source, stop));
  rows->whole_ = true;
  return std::shared_ptr<const DeviceRows>(std::move(rows));
}

void DeviceRows::FindCentre(const Source& source) {
  std::vector<double> sums(static_cast<size_t>(dimension_), 0.0);
  const int64_t step = std::max<int64_t>(1, source.rows / kCentreRows);
  int64_t rows = 0;
  for (int64_t row = 0; row < source.rows; row += step, ++rows) {
    const float* z = source.block->rows + static_cast<size_t>(row) * source.block->stride;
    const double scale = source.block->factors[row].scale;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += scale * double{z[i]};
  }
  for (const double sum : sums) centre_.push_back(static_cast<float>(sum / static_cast<double>(rows)));
  bounds_.centre = centre_.data();
}

void DeviceRows::PackFloats(const Source& source, int64_t row, uint8_t* numbers, RowTail* tail) {
  const float* z = source.block->rows + static_cast<size_t>(row) * source.block->stride;
  const RowFactors& factors = source.block->factors[row];
  const size_t n = static_cast<size_t>(dimension_);
  std::memcpy(numbers, z, n * sizeof(float));
  *tail = {factors.scale, factors.bias, 0, 0};
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += double{z[i]} * double{z[i]};
  bounds_.norm_max = std::max(bounds_.norm_max, RoundedUp(std::sqrt(squares) * double{factors.scale}));
  bounds_.bias_max = std::max(bounds_.bias_max, std::abs(factors.bias));
}

void DeviceRows::PackHalves(const Source& source, int64_t row, std::vector<uint8_t>* coded, uint8_t* numbers,
                            RowTail* tail) {
  const size_t at = CodeFactorsAt(CodeKind::kHalf, dimension_);
  CodeFactors factors;
  if (source.codes != nullptr) {
    const uint8_t* stored = source.codes->rows + static_cast<size_t>(row) * source.codes->stride;
    std::memcpy(numbers, stored, at);
    std::memcpy(&factors, stored + at, sizeof(factors));
  } else {
    const float* z = source.block->rows + static_cast<size_t>(row) * source.block->stride;
    EncodeRow(source.space->metric, source.block->factors[row], {z, static_cast<size_t>(dimension_)}, coded->data(),
              &bounds_);
    std::memcpy(numbers, coded->data(), at);
    std::memcpy(&factors, coded->data() + at, sizeof(factors));
  }
  *tail = {factors.step, factors.bias, factors.error, 0};
}

absl::Status DeviceRows::Copy(const Source& source, absl::FunctionRef<bool()> stop) {
  const bool half = storage_ == DeviceStorage::kHalf;
  Source from = source;
  if (!half || from.codes == nullptr || from.codes->kind != CodeKind::kHalf) from.codes = nullptr;
  // A device has one query for all segments, so it scores around the origin: such rows are coded anew.
  if (from.codes != nullptr && from.codes->around_centre) from.codes = nullptr;
  bounds_.kind = CodeKind::kHalf;
  if (from.codes != nullptr) {
    bounds_ = *from.codes;
    if (bounds_.centre != nullptr) centre_.assign(bounds_.centre, bounds_.centre + dimension_);
    bounds_.centre = centre_.empty() ? nullptr : centre_.data();
    bounds_.rows = nullptr;
  } else if (half) {
    FindCentre(from);
  }
  const int64_t row_bytes = int64_t{vectors_} * 16, together = std::max<int64_t>(1, kCopyBytes / row_bytes);
  std::vector<uint8_t> numbers(static_cast<size_t>(std::min(together, count_) * row_bytes));
  std::vector<RowTail> tails(static_cast<size_t>(std::min(together, count_)));
  std::vector<uint8_t> coded(CodeStride(CodeKind::kHalf, dimension_));  // PackHalves: of a row
  for (int64_t begin = 0; begin < count_; begin += together) {
    if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "copy to the device stopped");
    const int64_t n = std::min(together, count_ - begin);
    for (int64_t i = 0; i < n; ++i) {
      const float* z = from.block->rows + static_cast<size_t>(begin + i) * from.block->stride;
      // A row of the file that was damaged, which no kernel would find; the CPU's search says so.
      float sum = from.block->factors[begin + i].scale + from.block->factors[begin + i].bias;
      for (int j = 0; j < dimension_; ++j) sum += 0.0f * z[j];
      if (!std::isfinite(sum)) return DataLoss(StrCat("row ", begin + i, " has a number that is not finite"));
      uint8_t* const to = numbers.data() + i * row_bytes;
      RowTail* const tail = &tails[static_cast<size_t>(i)];
      half ? PackHalves(from, begin + i, &coded, to, tail) : PackFloats(from, begin + i, to, tail);
    }
    LC_RETURN_IF_ERROR(budget_->machine().Upload(memory_.at() + begin * row_bytes, numbers.data(), n * row_bytes));
    const int64_t tail_bytes = static_cast<int64_t>(sizeof(RowTail));
    LC_RETURN_IF_ERROR(budget_->machine().Upload(tails_at() + begin * tail_bytes, tails.data(), n * tail_bytes));
  }
  return absl::OkStatus();
}

const DeviceRows::KeptBits* DeviceRows::Kept(const std::shared_ptr<const StateCounts>& counts,
                                             uint32_t view_generation) const {
  for (const KeptBits& kept : kept_) {
    if (kept.counts == counts && kept.view_generation == view_generation) return &kept;
  }
  return nullptr;
}

// Instead of others of that generation: these are out of use, or soon will be.
void DeviceRows::Keep(KeptBits bits) const {
  std::vector<KeptBits> gone;  // freed after the lock: a device may wait for scans
  absl::MutexLock lock(&mu_);
  const auto from = std::stable_partition(
      kept_.begin(), kept_.end(), [&](const KeptBits& kept) { return kept.view_generation != bits.view_generation; });
  gone.assign(std::make_move_iterator(from), std::make_move_iterator(kept_.end()));
  kept_.erase(from, kept_.end());
  if (kept_.size() >= kBitsKept) {
    gone.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
  kept_.push_back(std::move(bits));
}

absl::StatusOr<std::shared_ptr<const DeviceBits>> DeviceRows::BitsOf(const std::shared_ptr<const StateCounts>& counts,
                                                                     uint32_t view_generation,
                                                                     absl::FunctionRef<bool(uint32_t)> visible) const {
  const uint64_t rows_gone = budget_->state().rows_gone;
  {
    absl::MutexLock lock(&mu_);
    if (const KeptBits* const kept = Kept(counts, view_generation); kept != nullptr) {
      if (kept->bits != nullptr) return kept->bits;
      if (kept->rows_gone == rows_gone) return ResourceExhausted("no room for the rows that are visible");
    }
  }
  const size_t count = static_cast<size_t>(PaddedTo(count_, 32) / 32);
  const int64_t bytes = static_cast<int64_t>(count * sizeof(uint32_t));
  auto bits = std::make_shared<DeviceBits>();
  absl::StatusOr<DeviceMemory> memory = budget_->Take(bytes);
  if (absl::IsResourceExhausted(memory.status())) {
    Keep({counts, view_generation, nullptr, rows_gone});  // refusal, unless the next Take succeeds
    memory = budget_->Take(bytes);                        // Keep may have freed bits of the same size.
  }
  LC_RETURN_IF_ERROR(memory.status());
  bits->memory = std::move(*memory);
  std::vector<uint32_t> words(count);
  for (int64_t row = 0; row < count_; ++row) {
    const uint32_t bit = visible(static_cast<uint32_t>(row)) ? 1u : 0u;
    words[static_cast<size_t>(row / 32)] |= bit << (row % 32);
  }
  LC_RETURN_IF_ERROR(budget_->machine().Upload(bits->memory.at(), words.data(), bytes));
  Keep({counts, view_generation, bits, rows_gone});
  return std::shared_ptr<const DeviceBits>(std::move(bits));
}

}  // namespace lightcone::gpu
