// Fits the head of stats/failure_head.h. It learns from training images, whose labels say what failing is
// (docs/internals/training-steps.md, Uncertainty).
// No torch here. Threads: values and pure functions; they use all cores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "stats/failure_head.h"
#include "trainer/evaluate.h"
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

// One row an item of `items`, whose neighbours among themselves `near` holds (kHeadNeighbours or more, if there are).
std::vector<HeadFeatures> HeadFeaturesOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                         const Neighbourhood& near, const std::vector<ClassEvidence>& classes);

struct FittedHead {
  FailureHead head;
  int64_t images = 0, wrong = 0;  // learnt from, and of those retrieved wrongly
};

// Logistic regression with a ridge of 0.01, on the findable ones among `most` of the images, as many of each class as
// there are (the gallery that it will judge has so many; how crowded neighbourhoods are depends on it). `old` and
// `queries`: the same images by the old model and by the one that asks, which may be the old one itself. Empty when
// there is nothing to tell apart: no image, or every one, is wrong. `means`: of the old model's training classes.
// INVALID_ARGUMENT as FailuresOf and NeighbourhoodOf.
absl::StatusOr<std::optional<FittedHead>> FitFailureHead(const RetrievalSpace& space, const ClassMeans& means,
                                                         const LabelledEmbeddings& old,
                                                         const LabelledEmbeddings& queries, int64_t most);

}  // namespace lightcone
