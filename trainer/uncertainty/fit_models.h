// A failure head from two trained models and their training images, for `lightcone backfill fit`. No torch here.
// Threads: pure functions; they use all cores.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/encoders/encoder.h"
#include "models/failure_head_file.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Embeds `images` (training images of the newer model, labelled from 0) by both models and fits the head to `items` of
// them, drawn evenly from the classes; 0: all. `items` is the size of the gallery to be ordered. The old model's
// classes come first, as many as its manifest says. INVALID_ARGUMENT: models of two spaces, fewer images than `items`,
// fewer classes than the old model has, and as FitFailureHead. FAILED_PRECONDITION when the newer model finds all
// images, or none. Errors of Encoder.
absl::StatusOr<FailureHeadFile> FitHeadOfModels(const Encoder& old_model, const Encoder& new_model,
                                                const ImageSet& images, int64_t items);

}  // namespace lightcone
