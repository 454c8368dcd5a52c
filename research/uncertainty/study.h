// How well each predictor tells the gallery items that a newer model will find badly, and how good a backfill is that
// follows it (research/notes/uncertainty.md). No torch here. Threads: pure functions; they use all cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "research/uncertainty/predictors.h"
#include "trainer/evaluate.h"

namespace lightcone {

inline constexpr int kBackfillSteps = 10;
inline constexpr int kRandomOrders = 3;

struct BackfillCurve {
  std::vector<double> cmc1, map;  // figures with 0, 1/kBackfillSteps, ..., 1 of the gallery embedded anew

  double AreaOfMap() const;  // mean over all shares, by trapezoids
};

struct PredictorOutcome {
  // For "the new model retrieves this item wrongly" (EvaluateUncertainty); empty when no or every item is.
  std::optional<double> auroc;
  BackfillCurve curve;  // curve of the order, worst first
};

struct UncertaintyStudy {
  // Items of classes with fewer than kOwnClassNeeded other images are wrong whatever a model does: no AUROC has them.
  int64_t items = 0, items_wrong = 0, items_left_out = 0;
  std::vector<BackfillCurve> random;  // kRandomOrders curves of random orders
  BackfillCurve oracle;
  std::vector<PredictorOutcome> predictors;  // outcomes in the order of PredictorList
};

struct StudyMaterial {
  PredictorMaterial old;    // material of the old model, whose gallery holds the items
  LabelledEmbeddings next;  // images by the new model: queries and backfilled embeddings
};

// The oracle embeds anew first the items whose new embedding, alone in the old gallery, raises the mean average
// precision most (move_gains.h): it sees labels and new embeddings. Items of equal score are taken in a random order
// (`seed`). A query's own image is left out throughout. Both models are of one Lorentz space but for the clip.
// INVALID_ARGUMENT as PredictorScores; CANCELLED once `stop` (may be null) is set, between two steps. Memory: 6 KiB an
// item for neighbours, a byte an item and share of every order, and blocks of 256 rows of n: distances of both models
// and gains.
absl::StatusOr<UncertaintyStudy> StudyUncertainty(const StudyMaterial& material, uint64_t seed,
                                                  const std::atomic<bool>* stop = nullptr);

// Over several seeds: how far the predictor's mean area under mAP lies on the way from a random order (0) to the oracle
// (1). Empty when the oracle gains no more than the random orders differ: then the share says nothing.
std::optional<double> AreaShare(std::span<const UncertaintyStudy> seeds, size_t predictor);

}  // namespace lightcone
