// The adapter that follows a training, fitted from the training's models and images. No torch here.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/adapter_file.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// An item adapter from `old_model` to `new_model` with the usual options (docs/internals/adapters.md). Each training
// image of `dataset` gives two labelled pairs: the plain image and a changed copy (`augment`). A set above 200,000
// images gives 200,000 plain pairs drawn by `seed`. Sets of up to kSmallSetImages are fitted in a third of the steps.
// Errors of CheckItemAdapter, EmbedPairs and FitAdapter; CANCELLED once `stop` (may be null) is set during the fit.
// Threads: safe.
absl::StatusOr<AdapterFile> FitItemAdapter(const Encoder& old_model, const Encoder& new_model, const Dataset& dataset,
                                           AugmentKind augment, uint64_t seed, const std::atomic<bool>* stop = nullptr);

// INVALID_ARGUMENT when the data set has too few images for an adapter. Call it before a training.
absl::Status CheckItemAdapter(const Dataset& dataset);

}  // namespace lightcone
