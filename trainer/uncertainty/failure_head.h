// A small head that tells which items a newer model will fail to find, from where they stand among their neighbours in
// the old gallery. It learns from training images, whose labels say what failing is (docs/uncertainty.md, The head).
// No torch here. Threads: values and pure functions; they use all cores.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/class_evidence.h"
#include "trainer/uncertainty/neighbourhood.h"

namespace lightcone {

// Which gallery items the queries retrieve wrongly (EvaluateUncertainty), and of which that says something: items of
// classes with no more than kOwnClassNeeded images are wrong whatever a model does.
struct Failures {
  std::vector<uint8_t> wrong, findable;
};
// `queries` and `gallery`: the same images. Errors as OwnAmongNearest.
absl::StatusOr<Failures> FailuresOf(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                    const LabelledEmbeddings& gallery);

// Of an item: entropies of the 16 (tau = .3 d1) and 64 (.15 d1) nearest, steepness and distance to the nearest (both in
// d1), how many of its 4 nearest have the item among theirs, its norm before the clip; of class_evidence.h cosine,
// margin and the sharp entropy, and how many of its 4 nearest are nearest to the same class mean.
inline constexpr size_t kHeadFeatures = 10;
inline constexpr int64_t kHeadNeighbours = 64;  // of the lists that the features read
using HeadFeatures = std::array<double, kHeadFeatures>;

// One row an item of `items`, whose neighbours among themselves `near` holds (kHeadNeighbours or more, if there are).
std::vector<HeadFeatures> HeadFeaturesOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                         const Neighbourhood& near, const ClassEvidence& classes);

struct FailureHead {
  // What the regression reads: the standardised features, limited to +-5, and their products of two, over 3.
  static constexpr size_t kTerms = kHeadFeatures + kHeadFeatures * (kHeadFeatures + 1) / 2;

  HeadFeatures mean{}, deviation{};
  std::array<double, kTerms> weights{};
  double bias = 0;

  std::array<double, kTerms> TermsOf(const HeadFeatures& features) const;
  // Log odds of being retrieved wrongly.
  double Score(const HeadFeatures& features) const;
};

// Logistic regression with a ridge of 0.01, on the findable ones among `most` of the images, as many of each class as
// there are (the gallery that it will judge has so many; how crowded neighbourhoods are depends on it). `old` and
// `queries`: the same images by the old model and by the one that asks, which may be the old one itself. Empty when
// there is nothing to tell apart: no image, or every one, is wrong. `means`: of the old model's training classes.
// INVALID_ARGUMENT as FailuresOf and NeighbourhoodOf.
absl::StatusOr<std::optional<FailureHead>> FitFailureHead(const RetrievalSpace& space, const ClassMeans& means,
                                                          const LabelledEmbeddings& old,
                                                          const LabelledEmbeddings& queries, int64_t most);

}  // namespace lightcone
