// The fit of stats/failure_head.h to training images, whose labels tell failures (research/notes/uncertainty.md). No
// torch here. Threads: values and pure functions; they use all cores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "stats/failure_head.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/neighbourhood.h"

namespace lightcone {

// For each gallery item, whether queries retrieve it wrongly (EvaluateUncertainty), and whether it is findable: its
// class has more than kOwnClassNeeded images.
struct Failures {
  std::vector<uint8_t> wrong, findable;
};
// `queries` and `gallery`: the same images. Errors as OwnAmongNearest.
absl::StatusOr<Failures> FailuresOf(const RetrievalSpace& space, const LabelledEmbeddings& queries,
                                    const LabelledEmbeddings& gallery);

// One row for each of `items`. `near` holds their neighbours among themselves, kHeadNeighbours if there are as many.
std::vector<HeadFeatures> HeadFeaturesOf(const RetrievalSpace& space, const LabelledEmbeddings& items,
                                         const Neighbourhood& near, const std::vector<ClassEvidence>& classes);

struct FittedHead {
  FailureHead head;
  int64_t images = 0, wrong = 0;  // number of fitted images, and of wrongly retrieved ones among them
};

// Logistic regression with a ridge of 0.01 on the findable images among `most`, drawn evenly from the classes. `most`
// is the size of the gallery to be judged, as the density of neighbourhoods depends on it. `old` and `queries` are the
// same images by the old model and by the querying model, which may be the old one. `means` are those of the old
// model's training classes. Empty when no image, or every one, is wrong. INVALID_ARGUMENT as FailuresOf and
// NeighbourhoodOf.
absl::StatusOr<std::optional<FittedHead>> FitFailureHead(const RetrievalSpace& space, const ClassMeans& means,
                                                         const LabelledEmbeddings& old,
                                                         const LabelledEmbeddings& queries, int64_t most);

}  // namespace lightcone
