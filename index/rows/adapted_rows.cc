#include "index/rows/adapted_rows.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace lightcone {
namespace {

int64_t BlockBytes(const Adapter& adapter) {
  const size_t row = StrideOf(adapter.output_dimension()) * sizeof(float) + sizeof(RowFactors) + sizeof(uint8_t);
  return AdaptedRows::kRowsABlock * static_cast<int64_t>(row);
}

}  // namespace

AdaptedBlock AdaptBlock(const Adapter& adapter, const float* rows, size_t stride, int64_t n) {
  LC_DCHECK(stride >= static_cast<size_t>(adapter.input_dimension()));
  const size_t count = static_cast<size_t>(n);
  const Space target = Normalized(adapter.target());
  AdaptedBlock out;
  out.stride = StrideOf(target.dimension);
  out.rows = AlignedFloats(count * out.stride);
  out.factors.resize(count);
  out.valid.resize(count);
  adapter.Apply(rows, stride, count, out.rows.data(), out.stride);
  for (size_t i = 0; i < count; ++i) {
    float* const row = out.rows.data() + i * out.stride;
    const std::span<const float> z(row, static_cast<size_t>(target.dimension));
    out.valid[i] = CheckVector(target, z, "row").ok() ? 1 : 0;
    if (out.valid[i] == 0) {
      std::fill(row, row + z.size(), 0.0f);
      continue;
    }
    out.factors[i] = FactorsOf(target, z);
    out.bias_max = std::max(out.bias_max, out.factors[i].bias);
  }
  return out;
}

AdaptedRows::AdaptedRows(const Adapter* adapter, std::shared_ptr<AdaptedBudget> budget)
    : adapter_(adapter), budget_(std::move(budget)), block_bytes_(BlockBytes(*adapter)) {}

AdaptedRows::~AdaptedRows() {
  absl::MutexLock lock(&mu_);
  budget_->Give(blocks_ * block_bytes_);
}

std::shared_ptr<const AdaptedBlock> AdaptedRows::Find(const std::shared_ptr<const Segment>& segment,
                                                      int64_t begin) const {
  const size_t block = static_cast<size_t>(begin / kRowsABlock);
  absl::ReaderMutexLock lock(&mu_);
  const auto found = entries_.find(segment.get());
  if (found == entries_.end() || block >= found->second.blocks.size()) return nullptr;
  // A pointer that is locked in vain belonged to a segment that is gone.
  return found->second.segment.lock() == segment ? found->second.blocks[block] : nullptr;
}

std::shared_ptr<const AdaptedBlock> AdaptedRows::Get(const std::shared_ptr<const Segment>& segment, int64_t begin) {
  LC_DCHECK(begin % kRowsABlock == 0);
  if (auto kept = Find(segment, begin)) return kept;
  if (!budget_->Take(block_bytes_)) {
    absl::MutexLock lock(&mu_);
    DropStale();
    if (!budget_->Take(block_bytes_)) return nullptr;
  }
  const RowBlock& rows = segment->block();
  auto made = std::make_shared<const AdaptedBlock>(
      AdaptBlock(*adapter_, rows.rows + static_cast<size_t>(begin) * rows.stride, rows.stride, kRowsABlock));
  return Keep(segment, static_cast<size_t>(begin / kRowsABlock), std::move(made));
}

std::shared_ptr<const AdaptedBlock> AdaptedRows::Keep(const std::shared_ptr<const Segment>& segment, size_t block,
                                                      std::shared_ptr<const AdaptedBlock> made) {
  absl::MutexLock lock(&mu_);
  if (!entries_.contains(segment.get())) DropStale();
  Entry& entry = entries_[segment.get()];
  if (entry.segment.lock() != segment) {
    GiveBack(entry);
    entry = Entry{segment, {}};
  }
  if (entry.blocks.size() <= block) entry.blocks.resize(block + 1);
  if (entry.blocks[block] != nullptr) {  // Another search was faster; the numbers are the same.
    budget_->Give(block_bytes_);
    return entry.blocks[block];
  }
  ++blocks_;
  return entry.blocks[block] = std::move(made);
}

void AdaptedRows::GiveBack(const Entry& entry) {
  const auto kept = [](const auto& block) { return block != nullptr; };
  const int64_t gone = std::count_if(entry.blocks.begin(), entry.blocks.end(), kept);
  blocks_ -= gone;
  budget_->Give(gone * block_bytes_);
}

void AdaptedRows::DropStale() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!it->second.segment.expired()) {
      ++it;
      continue;
    }
    GiveBack(it->second);
    entries_.erase(it++);
  }
}

void AdaptedRows::Clear() {
  absl::MutexLock lock(&mu_);
  budget_->Give(blocks_ * block_bytes_);
  blocks_ = 0;
  entries_.clear();
}

void AdaptedRows::Forget(const std::shared_ptr<const Segment>& segment) {
  absl::MutexLock lock(&mu_);
  const auto found = entries_.find(segment.get());
  if (found == entries_.end()) return;
  GiveBack(found->second);
  entries_.erase(found);
}

int64_t AdaptedRows::bytes() const {
  absl::ReaderMutexLock lock(&mu_);
  return blocks_ * block_bytes_;
}

}  // namespace lightcone
