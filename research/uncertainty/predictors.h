// What can be known of a stored item before a newer model exists, as a guess how badly that model will find it
// (research/notes/uncertainty.md says what each computes). No torch here. Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluate.h"

namespace lightcone {

inline constexpr int kImageCopies = 4;

struct PredictorInfo {
  const char *name, *needs;  // unique name, and needed material, for people
};
// In the order of the results below.
const std::vector<PredictorInfo>& PredictorList();

// All by the old model but `pairs_next`. Only predictors that need "labels" read the gallery's.
struct PredictorMaterial {
  RetrievalSpace space;
  LabelledEmbeddings gallery;      // gallery of n items
  LabelledEmbeddings training;     // training images of the model, labelled by its classes from 0
  std::span<const uint8_t> known;  // whether the model was trained on each item's class, n
  // The gallery's images in kImageCopies changed copies each: one block of n embeddings a copy, before the clip.
  std::span<const float> copies;
  std::span<const float> head_logits;  // logits of the old model's own head, n x classes
  // Training images of the newer model, by both. Only the head that learns from both models reads them.
  LabelledEmbeddings pairs_old, pairs_next;
};

// For each predictor n scores: larger is worse. Lorentz only. INVALID_ARGUMENT: as EvaluateRetrieval; `known`, `copies`
// or `head_logits` of another size than the gallery, or with a number that is not finite; a label of `training` below
// 0; a gallery of one item, or of copies of one.
absl::StatusOr<std::vector<std::vector<double>>> PredictorScores(const PredictorMaterial& material);

}  // namespace lightcone
