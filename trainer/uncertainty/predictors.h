// What can be known of a stored item before a newer model exists, as a guess how badly that model will find it
// (docs/uncertainty.md lists them with their figures). No torch here. Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluate.h"

namespace lightcone {

struct PredictorMaterial {
  RetrievalSpace space;
  LabelledEmbeddings gallery;      // all by the old model; its labels are read by no predictor but those that say so
  LabelledEmbeddings training;     // of the old model's training images, labelled by its classes
  std::span<const uint8_t> known;  // n: whether the old model was trained on the item's class
};

struct Predictor {
  std::string name, needs;     // for people
  std::vector<double> scores;  // n: larger is worse
};

// In the order of the page. Lorentz only. INVALID_ARGUMENT as EvaluateRetrieval, and for `known` of another size.
absl::StatusOr<std::vector<Predictor>> PredictorsOf(const PredictorMaterial& material);

}  // namespace lightcone
