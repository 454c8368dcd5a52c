// The gain of an adapter, measured on embeddings of a test set by both models (docs/reference/evaluation.md). No torch
// here. Threads: safe; uses the tensor library's threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/adapter.h"
#include "geometry/metric.h"
#include "trainer/evaluate.h"

namespace lightcone {

// The same items by both models, before the clip, row major. All are queries and gallery; a query's ranking leaves its
// own item out.
struct AdapterTestSet {
  std::span<const float> old_z, new_z;  // embeddings, n x dimension of the space
  std::span<const int32_t> labels;      // class of each item, n
  Space old_space, new_space;           // spaces of the two models, lorentz or cosine
};

struct AdapterEvaluationOptions {
  // M(*;*) of P_com and P_up, that of a model trained alone on all data. Without it, the new model's own retrieval.
  std::optional<RetrievalFigures> base;
  bool mixed = true;  // whether to rank mixed galleries, at two distances a pair
  uint64_t seed = 1;  // seed of the order in which items are backfilled
};

// Gains in CMC@1, CMC@5 and mAP; empty where the denominator is 0.
struct CompatibilityGains {
  std::optional<double> cmc1, cmc5, map;
};

// New queries on a mixed gallery. The new model embeds a share of the items; the adapter reaches the others, which the
// old model embeds. Distances are not calibrated.
struct MixedPoint {
  double share = 0;
  RetrievalFigures figures;
};

inline constexpr double kBackfillShares[] = {0, 0.1, 0.25, 0.5, 0.75, 1};
inline constexpr double kDipMax = 0.005;

struct AdapterEvaluation {
  RetrievalFigures old_old, new_new;
  std::optional<RetrievalFigures> plain;  // new queries on the old gallery, where the two spaces are comparable
  RetrievalFigures adapted;               // new queries on the old gallery through the adapter
  RetrievalFigures base;                  // figures that the gains refer to
  bool base_given = false;
  CompatibilityGains p_com_plain, p_com_adapted, p_up;
  std::vector<MixedPoint> mixed;      // galleries at kBackfillShares, nested random sets; empty without `mixed`
  double dip_cmc1 = 0, dip_map = 0;   // greatest fall below an earlier share
  double mean_error = 0;              // mean distance of the adapted embeddings to the target model's
  std::optional<double> error_auroc;  // AUROC of the adapter's uncertainty for the worst quarter of errors

  bool NoDip() const { return dip_cmc1 <= kDipMax && dip_map <= kDipMax; }
};

// INVALID_ARGUMENT names field, value and range before any computation: an input dimension or target that does not fit
// the adapter's direction, sizes that do not fit, fewer than 2 items, a number that is not finite, another metric than
// lorentz and cosine.
absl::StatusOr<AdapterEvaluation> EvaluateAdapter(const Adapter& adapter, const AdapterTestSet& test,
                                                  const AdapterEvaluationOptions& options = {});

}  // namespace lightcone
