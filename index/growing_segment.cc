#include "index/growing_segment.h"

#include <algorithm>

#include "base/status.h"

namespace lightcone {

absl::StatusOr<std::shared_ptr<GrowingSegment>> GrowingSegment::Make(uint64_t id, uint32_t generation,
                                                                     const Space& space, int64_t rows_max) {
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
  return segment;
}

void GrowingSegment::Append(uint64_t internal_id, std::span<const float> z, float uncertainty, uint32_t state,
                            uint64_t sequence) {
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
}

std::optional<int64_t> GrowingSegment::Find(uint64_t internal_id) const {
  if (internal_id > id_max_) return std::nullopt;  // New content, as most: no look at a table that is in no cache.
  const auto it = row_of_id_.find(internal_id);
  if (it == row_of_id_.end() || states_.Get(static_cast<size_t>(it->second)) == kDeleted) return std::nullopt;
  return it->second;
}

int64_t GrowingSegment::heap_bytes() const {
  const int64_t row_bytes = static_cast<int64_t>(block_.stride * sizeof(float) + sizeof(RowFactors)) + 8 + 4 + 20;
  return rows() * row_bytes + static_cast<int64_t>(row_of_id_.capacity() * 17);
}

}  // namespace lightcone
