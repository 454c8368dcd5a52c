#include "index/rows/growing_segment.h"

#include <algorithm>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int64_t kIdBytes = 17;  // bytes of an entry in the table of ids

}  // namespace

absl::StatusOr<std::shared_ptr<GrowingSegment>> GrowingSegment::Make(uint64_t id, uint32_t generation,
                                                                     const Space& space, int64_t rows_max,
                                                                     std::optional<CodeKind> coded) {
  std::shared_ptr<GrowingSegment> segment(new GrowingSegment(id, generation, space, rows_max));
  const size_t rows = static_cast<size_t>(rows_max);
  const size_t stride = StrideOf(space.dimension);
  LC_ASSIGN_OR_RETURN(segment->vectors_, Mapping::Zeroed(rows * stride * sizeof(float)));
  LC_ASSIGN_OR_RETURN(segment->factors_, Mapping::Zeroed(rows * sizeof(RowFactors)));
  LC_ASSIGN_OR_RETURN(segment->ids_, Mapping::Zeroed(rows * sizeof(uint64_t)));
  LC_ASSIGN_OR_RETURN(segment->uncertainty_, Mapping::Zeroed(rows * sizeof(float)));
  LC_ASSIGN_OR_RETURN(segment->states_, RowStates::Make(rows));
  segment->block_ = {segment->vectors_.as<float>(), stride, segment->factors_.as<RowFactors>(),
                     segment->ids_.as<uint64_t>(), segment->uncertainty_.as<float>()};
  if (coded) {
    CodeBlock& block = segment->coded_;
    block.kind = *coded;
    block.stride = CodeStride(*coded, space.dimension);
    LC_ASSIGN_OR_RETURN(segment->codes_, Mapping::Zeroed(rows * block.stride));
    block.rows = segment->codes_.as<uint8_t>();
    segment->centre_.resize(static_cast<size_t>(space.dimension));
    block.centre = segment->centre_.data();
    block.around_centre = space.metric == Metric::kEuclidean;
  }
  return segment;
}

void GrowingSegment::Append(uint64_t internal_id, std::span<const float> z, float uncertainty, uint32_t state,
                            uint64_t sequence) {
  LC_DCHECK(!full() && z.size() == static_cast<size_t>(space_.dimension));
  const size_t i = static_cast<size_t>(counts_.rows);
  const RowFactors factors = FactorsOf(space_, z);
  std::copy(z.begin(), z.end(), vectors_.as<float>() + i * block_.stride);
  factors_.as<RowFactors>()[i] = factors;
  ids_.as<uint64_t>()[i] = internal_id;
  uncertainty_.as<float>()[i] = uncertainty;
  bias_max_ = std::max(bias_max_, factors.bias);
  if (state != kLive) {
    states_.Set(i, state, /*sequence=*/0);  // No view has seen the row in another state.
    counts_.Add(state, 1);
  }
  row_of_id_[internal_id] = counts_.rows;
  id_max_ = std::max(id_max_, internal_id);
  if (counts_.rows == 0) first_sequence_ = sequence;
  last_sequence_ = sequence;
  ++counts_.rows;
  pinned_counts_.reset();
  if (!HasCodes()) return;
  if (counts_.rows == centre_rows_) {
    SetCentre();
    for (int64_t row = 0; row < centre_rows_; ++row) Encode(row);
  } else if (counts_.rows > centre_rows_) {
    Encode(counts_.rows - 1);
  }
}

void GrowingSegment::SetCentre() {
  for (size_t j = 0; j < centre_.size(); ++j) {
    double sum = 0;
    for (int64_t i = 0; i < counts_.rows; ++i) sum += double{block_.factors[i].scale} * double{row(i)[j]};
    centre_[j] = static_cast<float>(sum / static_cast<double>(counts_.rows));
  }
}

void GrowingSegment::Encode(int64_t i) {
  uint8_t* const out = codes_.as<uint8_t>() + static_cast<size_t>(i) * coded_.stride;
  EncodeRow(space_.metric, block_.factors[i], row(i), out, &coded_);
}

std::optional<int64_t> GrowingSegment::Find(uint64_t internal_id) const {
  if (internal_id > id_max_) return std::nullopt;  // New content, as most: no look at a table that is in no cache.
  const auto it = row_of_id_.find(internal_id);
  if (it == row_of_id_.end() || states_.Get(static_cast<size_t>(it->second)) == kDeleted) return std::nullopt;
  return it->second;
}

int64_t GrowingSegment::heap_bytes() const {
  const std::optional<CodeKind> coded =
      rows() >= centre_rows_ && HasCodes() ? std::optional(coded_.kind) : std::nullopt;
  return rows() * (RowBytes(space_, coded) - kIdBytes) + static_cast<int64_t>(row_of_id_.capacity()) * kIdBytes;
}

int64_t GrowingSegment::RowBytes(const Space& space, std::optional<CodeKind> coded) {
  const size_t codes = coded ? CodeStride(*coded, space.dimension) : 0;
  return static_cast<int64_t>(StrideOf(space.dimension) * sizeof(float) + sizeof(RowFactors) + codes) + 8 + 4 + 20 +
         kIdBytes;
}

}  // namespace lightcone
