// Items that several generations have embedded. They show what a partly backfilled gallery is like, and give figures of
// several generations over the same items. Threads: a value, read-only once it is made.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/collection/adapters.h"
#include "server/engine/validation/probe_ranking.h"
#include "stats/distance_calibration.h"
#include "stats/distance_fusion.h"

namespace lightcone::server {

// Of how many of a mixture's items the embedding is the newer generation's. `share`: from 0 to 1.
inline size_t CountItemsAnew(double share, size_t items) {
  return static_cast<size_t>(share * static_cast<double>(items));
}

inline constexpr std::array<double, 5> kMixtureShares = {0, 0.25, 0.5, 0.75, 1};

// The points of a mixture, and whether it dips: falls more than 0.01 in mAP below its start and its end. An end below
// what the older generation itself reaches on these items (`old_map`) counts as that much, so that new embeddings of no
// use are no end to fall to. A map that smooths may rank better than good ones, so that a backfill ends below its
// start.
std::vector<MixturePoint> PointsOf(std::span<const std::vector<QueryRanking>> ranks, std::span<const double> shares);
bool Dips(std::span<const MixturePoint> mixture, double old_map);

class CommonItems {
 public:
  // At most 10,000 items that all of `generations` embedded, drawn at random but always the same; with `wanted` of
  // those with these internal ids alone. CANCELLED; DATA_LOSS.
  static absl::StatusOr<CommonItems> Read(Collection* collection, std::span<const GenerationRecord* const> generations,
                                          const RankingRun& run,
                                          const std::function<bool(uint64_t internal_id)>& wanted = nullptr);

  // Fewest held-out items, and fewest probes that have something to find among them.
  struct Least {
    size_t items = 0, probes = 0;
  };
  // The same of items that the fits of the adapters between these generations held out. Where it is not known which
  // these are, or there are too few, all items, and `fitted_pairs` is the most pairs that one of the adapters was
  // fitted from; else it is 0. Fewer probes are enough where no other probe has anything to find anywhere.
  static absl::StatusOr<CommonItems> ReadHeldOut(Collection* collection,
                                                 std::span<const GenerationRecord* const> generations,
                                                 std::span<const ServedAdapter* const> adapters,
                                                 std::span<const ProbeTarget> targets, Least least,
                                                 const RankingRun& run, uint64_t* fitted_pairs);

  size_t size() const { return ids_.size(); }
  // Whether the fits of all adapters are known to have held out every item here.
  bool held_out() const { return held_out_; }

  // Embeddings by `generation`, reached by `way`.
  struct Leg {
    uint32_t generation = 0;
    const RankingWay* way = nullptr;
    std::span<const DistanceCalibration> calibrations = {};  // one a probe; empty: distances are plain
    // Another way to the same rows, and one fusion a probe of its distances and those of `way`; nullptr: none.
    const RankingWay* beside = nullptr;
    std::span<const DistanceFusion> fusions = {};
    // In place of the distances of the way beside, for the probes that have one here; nullptr: of none.
    const ProbeLikenesses* likenesses = nullptr;
  };
  // What one probe's ranking is made of, item by item: plain or fused distances by each leg, and 1 for relevant items.
  // A distance is infinite if an adapter makes no vector of the item.
  struct Distances {
    std::span<const double> older, newer;
    std::span<const int64_t> relevant;
    std::optional<size_t> own;  // the probe's own item, left out of its ranking
  };
  using SeeDistances = std::function<void(size_t probe, const Distances&)>;
  // Ranks of the relevant items by exact distances, by share, then probe. The first share of the items, in random
  // order, is reached as `newer`, the others as `older`. Calls `see` for every probe that has queries by both legs, and
  // by the way beside, if there is one.
  // CANCELLED. REQUIRES: Read got both generations.
  absl::StatusOr<std::vector<std::vector<QueryRanking>>> Rank(const Leg& older, const Leg& newer,
                                                              std::span<const double> shares,
                                                              std::span<const ProbeTarget> targets,
                                                              const RankingRun& run,
                                                              const SeeDistances& see = nullptr) const;

 private:
  struct Rows {
    size_t dimension = 0;
    std::vector<float> values;
  };
  // Whether so many probes have something to find here, or all that have anything anywhere. CANCELLED.
  absl::StatusOr<bool> FoundBy(std::span<const ProbeTarget> targets, size_t least, const RankingRun& run) const;
  // Adds the ids that every generation has embedded.
  absl::Status Take(Collection* collection, std::span<const GenerationRecord* const> generations,
                    std::span<const uint64_t> ids);
  // The features of a generation's rows, by row. REQUIRES: the kernel is of its rows.
  std::vector<float> FeaturesOf(uint32_t generation, const LikenessKernel& kernel) const;
  // The rows as a way sees them. A row is empty if the way's adapter makes no vector of it.
  std::vector<std::vector<float>> SeenBy(uint32_t generation, const RankingWay& way) const;

  std::vector<uint64_t> ids_;  // in random order
  bool held_out_ = false;
  std::map<uint32_t, Rows> rows_;
};

}  // namespace lightcone::server
