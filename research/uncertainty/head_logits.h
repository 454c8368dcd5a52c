// What the classification head of a trained model says of embeddings. No torch here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/manifest.h"

namespace lightcone {

// Lorentz multinomial logits (docs/internals/training-methods.md, Base loss) by the head in FOLDER/checkpoint.bin, of
// embeddings `z` before the clip, n x manifest.dimension: n x classes, row major. NOT_FOUND: no checkpoint there;
// DATA_LOSS: a damaged one, or a head of another metric or dimension. Threads: safe.
absl::StatusOr<std::vector<float>> HeadLogits(const std::string& folder, const Manifest& manifest,
                                              std::span<const float> z);

}  // namespace lightcone
