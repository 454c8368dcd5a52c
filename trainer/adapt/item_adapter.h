// The adapter that follows a training, from its models and images alone. No torch here.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/adapter_file.h"
#include "models/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// An item adapter from `old_model` to `new_model` (docs/internals/adapters.md) with the usual options. Each training
// image of `dataset`, plain and in one changed copy (`augment`), is a pair with its label; of sets of more than 200,000
// images so many are drawn from `seed`, plain only. Sets of up to kSmallSetImages are fitted in a third of the steps.
// Errors of CheckItemAdapter, EmbedPairs and FitAdapter; CANCELLED once `stop` (may be null) is set, which is looked at
// while fitting. Threads: safe.
absl::StatusOr<AdapterFile> FitItemAdapter(const Encoder& old_model, const Encoder& new_model, const Dataset& dataset,
                                           AugmentKind augment, uint64_t seed, const std::atomic<bool>* stop = nullptr);

// Whether there are images enough, before any model is trained. INVALID_ARGUMENT.
absl::Status CheckItemAdapter(const Dataset& dataset);

}  // namespace lightcone
