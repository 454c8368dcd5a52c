// Items that several generations have embedded: what a gallery would be like that is embedded anew in part, and figures
// that compare because they are over the same items. Threads: a value, read only once it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/validation/probe_ranking.h"
#include "stats/distance_calibration.h"

namespace lightcone::server {

class CommonItems {
 public:
  // The items that all of `generations` embedded, at most 10,000 of them, drawn at random but always the same.
  // CANCELLED; DATA_LOSS.
  static absl::StatusOr<CommonItems> Read(Collection* collection, std::span<const GenerationRecord* const> generations,
                                          const RankingRun& run);

  size_t size() const { return ids_.size(); }

  // Ranks of the relevant among these items, as their embeddings by `generation` are reached by `way`; the first
  // share of them, in random order, as `newer` (embeddings by `newer_generation`) is reached. By exact distances.
  // CANCELLED. REQUIRES: both generations were read.
  struct Leg {
    uint32_t generation = 0;
    const RankingWay* way = nullptr;
    // One a probe: its distances are ranked as this says. Empty: as they are.
    std::span<const DistanceCalibration> calibrations = {};
  };
  // What one probe's ranking is made of, item by item: plain distances by each leg (infinite where an adapter makes no
  // vector of the item), and 1 for what is relevant.
  struct Distances {
    std::span<const double> older, newer;
    std::span<const int64_t> relevant;
    std::optional<size_t> own;  // the probe's own item, left out of its ranking
  };
  using SeeDistances = std::function<void(size_t probe, const Distances&)>;
  // By share, then probe. `see`, if it is there, is shown every probe that has queries by both legs.
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
  // Adds those of the ids that every generation has embedded.
  absl::Status Take(Collection* collection, std::span<const GenerationRecord* const> generations,
                    std::span<const uint64_t> ids);
  // Rows as a way sees them; those of which its adapter makes no vector are empty.
  std::vector<std::vector<float>> SeenBy(const Leg& leg) const;

  std::vector<uint64_t> ids_;  // in the random order
  std::map<uint32_t, Rows> rows_;
};

}  // namespace lightcone::server
