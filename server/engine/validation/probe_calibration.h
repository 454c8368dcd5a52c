// Learns a map from distances to older items onto the scale of the new generation's own distances. Measures on unseen
// probes whether mixed galleries rank better by it. Threads: a HalvedCounts belongs to one thread; the rest is pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/validation/probe_mixture.h"
#include "stats/distance_calibration.h"

namespace lightcone::server {

// Distances of both legs, for two halves of the probes. A hash splits them, so the halves are always the same.
class HalvedCounts {
 public:
  // Leaves out items that a leg cannot rank, and probes that have nothing to find.
  void Add(size_t probe, const CommonItems::Distances& distances);

  // How a calibration is learnt: from the chance that an item is relevant (Equate), or from the nearest items alone
  // (MatchNearest).
  enum class Kind { kRelevance, kNearest };
  // Learns from one half (0, 1) or from both. FAILED_PRECONDITION says why there is no calibration.
  absl::StatusOr<DistanceCalibration> Fit(Kind kind, std::span<const size_t> halves) const;
  int64_t probes(size_t half) const { return halves_[half].probes; }

 private:
  struct Half {
    DistanceCounts older, newer;
    DistanceMoments older_nearest, newer_nearest;
    int64_t probes = 0;
  };
  std::array<Half, 2> halves_;
};

// Of the kind that gains most. `plain`: the ranks of the same legs by plain distance, by share and probe. `counts`:
// their distances; `old_map`: as of Dips. The mixture is that of kMixtureShares, with which `shares` begins. `ranks` is
// set to those by the calibration at all of `shares`, and left alone where there is none. CANCELLED.
absl::StatusOr<CalibrationReport> MeasureCalibration(const CommonItems& common, CommonItems::Leg older,
                                                     const CommonItems::Leg& newer, const HalvedCounts& counts,
                                                     std::span<const std::vector<QueryRanking>> plain,
                                                     std::span<const double> shares,
                                                     std::span<const ProbeTarget> targets, double old_map,
                                                     const RankingRun& run,
                                                     std::vector<std::vector<QueryRanking>>* ranks);

}  // namespace lightcone::server
