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

// Rows of each side: fewer have no shape to be told by, and more take too much memory.
inline constexpr int64_t kAlignRowsMin = 1'000, kAlignRowsMax = 12'000;
inline constexpr double kAgreementMin = 0.5;  // least Alignment::agreement of starts that found one map

struct AlignOptions {
  int64_t rows_max = 12'000;  // rows of each side that are looked at, evenly spread ones of more
  int64_t starts = 12;        // most beginnings from other clusters; two that find the same map are enough
  uint64_t seed = 1;
};

// Rows that were matched, pair by pair.
struct Alignment {
  std::vector<int64_t> source, target;
  int64_t looked_at = 0;  // source rows that were looked at
  // Share of the ten target rows nearest to each source row that two starts have in common, the pair of them that
  // agrees best. Starts that find the right map find the same one; where there is none to be found, each finds another.
  // Below kAgreementMin the pairs are worthless.
  double agreement = 0;
};

struct AlignProgress {
  int64_t step = 0, steps = 0;
};
using AlignCallback = std::function<void(const AlignProgress&)>;  // callback on the calling thread

// source, target: rows of cosine spaces, n x dimension and m x dimension, of other items of the same kind, such as two
// halves of one gallery. Clusters of both are matched by the similarities among them (a quadratic assignment, by the
// FAQ algorithm of Vogelstein et al. 2015); their centres give a rotation, which is refined by what lies nearest to the
// carried rows, then by mutual best matches by CSLS (Conneau et al. 2018), in the end by ridge maps that are fitted to
// these again and again. The pairs are the last mutual best matches. The same rows, options and number of the tensor
// library's threads give the same pairs. INVALID_ARGUMENT names the field for a space that is not cosine, a dimension
// out of 2 .. kAdaptDimensionMax, fewer rows than kAlignRowsMin, and rows that a space does not allow; CANCELLED once
// `stop` (may be null) is set. Threads: safe; uses the tensor library's threads. Memory: about three times rows_max^2
// floats, and the rows twice.
absl::StatusOr<Alignment> AlignUnpaired(std::span<const float> source, const Space& source_space,
                                        std::span<const float> target, const Space& target_space,
                                        const AlignOptions& options, const AlignCallback& callback = {},
                                        const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
