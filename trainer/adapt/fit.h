// Fits an adapter from pairs of embeddings of the same items (docs/internals/adapters.md). No torch here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "models/adapter_file.h"
#include "trainer/adapt/options.h"

namespace lightcone {

struct AdaptProgress {
  int64_t step = 0, steps = 0;
  double loss = 0;           // loss of the step
  double held_out_loss = 0;  // loss of the held-out pairs
  double best_loss = 0;      // least held-out loss so far, that of the resulting adapter
  double elapsed_seconds = 0;
  bool finished = false;
};
using AdaptCallback = std::function<void(const AdaptProgress&)>;  // callback on the fitting thread

// The fitted adapter with its figures, ready for Adapter::Make and WriteAdapter. The bytes are a function of pairs,
// options and the number of the tensor library's threads. A fit starts from the closed form and never ends with a
// greater held-out loss; with options.choose it ends with the least of all maps that it fitted (fit.compared).
// INVALID_ARGUMENT as AdaptOptions::Validate and CheckPairs, before any computation; FAILED_PRECONDITION "loss
// 'reg+rel' is nan at step 12" for a loss that is not finite; CANCELLED once `stop` (may be null) is set. Threads:
// safe; uses the tensor library's threads. Memory: about three times the pairs.
absl::StatusOr<AdapterFile> FitAdapter(const EmbeddingPairs& pairs, const AdaptOptions& options,
                                       const AdaptCallback& callback = {}, const std::atomic<bool>* stop = nullptr);

}  // namespace lightcone
