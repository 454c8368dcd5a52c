// What the distances of one leg of a search mean: the chance that a hit is relevant, and what a bound that was given in
// another generation's distances is in those of the leg.
// Threads: values; the state that they were made of must outlive them.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"
#include "stats/relevance_curve.h"

namespace lightcone::server {

// INVALID_ARGUMENT, naming scale_generation, where there is no such generation. 0 is none, and good.
absl::Status CheckIsGeneration(const CollectionState& state, uint32_t generation);
// The same, and FAILED_PRECONDITION where no validation measured the distances of its own queries.
absl::Status CheckScaleGeneration(const CollectionState& state, uint32_t generation);

class LegScale {
 public:
  LegScale() = default;  // distances mean nothing but themselves

  // `relevance`: of the leg's distances; nullptr: not measured. `is_own`: the leg ranks items of the scale's generation
  // by its own queries.
  LegScale(const CollectionState& state, uint32_t scale_generation, const RelevanceCurve* relevance, bool is_own);

  // 0 .. 1; nullopt: not measured.
  std::optional<double> RelevanceAt(double distance) const;
  // nullopt: no scale is asked for, or not measured.
  std::optional<double> ScaledDistance(double distance) const;
  // The greatest distance of the leg within `distance_max` on the scale. REQUIRES: translates().
  double BoundOf(double distance_max) const;
  bool translates() const { return is_own_ || (own_ != nullptr && relevance_ != nullptr); }
  bool tells_relevance() const { return relevance_ != nullptr; }

 private:
  const RelevanceCurve* relevance_ = nullptr;
  const RelevanceCurve* own_ = nullptr;  // curve of the scale's generation; nullptr: no scale
  bool is_own_ = false;
};

// The least of the greatest distances that the call's bounds allow, on its scale; nullopt: no bound.
std::optional<double> BoundOnScale(const SearchCall& call);

}  // namespace lightcone::server
