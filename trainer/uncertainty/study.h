// How well each predictor tells the gallery items that a newer model will find badly, and how good a backfill is that
// follows it (docs/uncertainty.md). No torch here. Threads: pure functions; they use the tensor library's threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/evaluate.h"
#include "trainer/uncertainty/predictors.h"

namespace lightcone {

// Shares of the gallery at which a backfill curve is measured.
inline constexpr int kBackfillSteps = 10;

struct PredictorFigures {
  std::string name, needs;
  double auroc = 0.5;  // for "the new model retrieves this item wrongly" (EvaluateUncertainty)
  // Area under the curve of CMC@1 and of mAP over the share of items embedded anew, worst first, as a share of the way
  // from a random order (0) to the oracle (1); 0 where those two agree.
  double area_cmc1 = 0, area_map = 0;
};

struct BackfillCurve {
  std::vector<double> cmc1, map;  // at 0, 1/kBackfillSteps, ..., 1
};

struct UncertaintyStudy {
  int64_t items = 0, items_wrong = 0;
  BackfillCurve random, oracle;  // random: the mean of kRandomOrders
  std::vector<PredictorFigures> predictors;
};

struct StudyMaterial {
  PredictorMaterial old;    // gallery: the items by the old model
  LabelledEmbeddings next;  // the same images by the new one: queries, and what the backfill puts in place
};

// The oracle embeds anew first the items with the fewest queries of their class among their 10 nearest (of equal ones
// the earlier); it sees labels and new embeddings. A query's own image is left out throughout. Both models are of one
// Lorentz space but for the clip. INVALID_ARGUMENT as PredictorsOf.
absl::StatusOr<UncertaintyStudy> StudyUncertainty(const StudyMaterial& material, uint64_t seed);

}  // namespace lightcone
