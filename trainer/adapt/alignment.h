// Pairs for an adapter where no item was embedded by both models: rows of one model are matched with rows of the other
// that lie alike among their own kind, as in mini-vec2vec (arXiv 2510.02348). No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/metric.h"

namespace lightcone {

inline constexpr int64_t kAlignRowsMin = 1'000;  // least rows of each side: fewer have no shape

struct AlignOptions {
  int64_t rows_max = 12'000;  // rows of each side that are looked at, evenly spread ones of more
  int64_t starts = 12;        // most beginnings from other clusters; two that find the same map are enough
  uint64_t seed = 1;
};

// Rows that were matched, pair by pair.
struct Alignment {
  std::vector<int64_t> source, target;
  double matched_share = 0;  // share of the source rows looked at that were matched
  // Mean cosine of the rows as the chosen start carries them and as another start does, the nearest of them. Starts
  // that find the right map find the same one; where there is none to be found, each finds another.
  double agreement = -1;
};

struct AlignProgress {
  int64_t step = 0, steps = 0;
};
using AlignCallback = std::function<void(const AlignProgress&)>;  // callback on the calling thread

// source, target: rows of cosine spaces, n x dimension and m x dimension, of other items of the same kind, such as two
// halves of one gallery. Clusters of both are matched by the similarities among them (a quadratic assignment, by the
// FAQ algorithm of Vogelstein et al. 2015); their centres give a rotation, which is refined by what lies nearest to the
// carried rows; in the end pairs are mutual best matches by CSLS (Conneau et al. 2018), by a ridge map that is fitted
// to them again and again. INVALID_ARGUMENT names the field for a space that is not cosine, fewer rows than
// kAlignRowsMin, and rows that a space does not allow; CANCELLED once `stop` (may be null) is set. Threads: safe; uses
// the tensor library's threads. Memory: rows_max^2 floats and the rows.
absl::StatusOr<Alignment> AlignUnpaired(std::span<const float> source, const Space& source_space,
                                        std::span<const float> target, const Space& target_space,
                                        const AlignOptions& options, const AlignCallback& callback = {},
                                        const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
