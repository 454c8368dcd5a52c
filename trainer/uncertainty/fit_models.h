// A failure head from two trained models and their training images: what `lightcone backfill fit` writes. No torch
// here. Threads: pure functions; they use all cores.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/encoder.h"
#include "models/failure_head_file.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Embeds `images` (training images of the newer model, labelled from 0) by both and fits the head from `items` of them,
// as many of each class as there are (0: all): how crowded neighbourhoods are depends on their number, so `items` is
// the size of the gallery that will be ordered. The old model's classes are the first of the images' own, as many as
// its manifest says. INVALID_ARGUMENT: models of two spaces; fewer images than `items`, or fewer classes than the old
// model has; and as FitFailureHead. FAILED_PRECONDITION when the newer model finds all images, or none: nothing tells
// them apart. Errors of Encoder.
absl::StatusOr<FailureHeadFile> FitHeadOfModels(const Encoder& old_model, const Encoder& new_model,
                                                const ImageSet& images, int64_t items);

}  // namespace lightcone
