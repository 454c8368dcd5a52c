// What an adapter gains, from embeddings of a test set by both models (docs/reference/evaluation.md). No torch here.
// Threads: safe; uses the tensor library's threads.
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

// The same items by both models, before the clip, row major. They are queries and gallery: a query's own item is left
// out.
struct AdapterTestSet {
  std::span<const float> old_z, new_z;  // n x dimension of the space
  std::span<const int32_t> labels;      // n
  Space old_space, new_space;           // lorentz or cosine each
};

struct AdapterEvaluationOptions {
  // M(*;*) of P_com and P_up: a model trained alone on all data. Absent: the new model on its own gallery.
  std::optional<RetrievalFigures> base;
  bool mixed = true;  // the mixed gallery; costs two distances a pair
  uint64_t seed = 1;  // of the order in which items are backfilled
};

// Of CMC@1, CMC@5 and mAP; empty where the denominator is 0.
struct CompatibilityGains {
  std::optional<double> cmc1, cmc5, map;
};

// New queries on a gallery in which a share of the items is embedded by the new model, the others by the old one and
// reached through the adapter. Distances are plain: each leg's own.
struct MixedPoint {
  double share = 0;
  RetrievalFigures figures;
};

inline constexpr double kBackfillShares[] = {0, 0.1, 0.25, 0.5, 0.75, 1};
inline constexpr double kDipMax = 0.005;

struct AdapterEvaluation {
  RetrievalFigures old_old, new_new;
  std::optional<RetrievalFigures> plain;  // new queries, old gallery; only where the two spaces are comparable
  RetrievalFigures adapted;               // the same through the adapter
  RetrievalFigures base;                  // that the gains refer to
  bool base_given = false;
  CompatibilityGains p_com_plain, p_com_adapted, p_up;
  std::vector<MixedPoint> mixed;      // at kBackfillShares, of nested random sets; empty when not wanted
  double dip_cmc1 = 0, dip_map = 0;   // the greatest fall below an earlier share
  double mean_error = 0;              // of the adapted embeddings to the target model's
  std::optional<double> error_auroc;  // of the adapter's uncertainty for "error among the worst quarter"

  bool NoDip() const { return dip_cmc1 <= kDipMax && dip_map <= kDipMax; }
};

// INVALID_ARGUMENT naming field, value and range, before any product: an adapter whose input dimension or target is not
// that of its direction, sizes that do not fit, fewer than 2 items, a number that is not finite, another metric than
// lorentz and cosine.
absl::StatusOr<AdapterEvaluation> EvaluateAdapter(const Adapter& adapter, const AdapterTestSet& test,
                                                  const AdapterEvaluationOptions& options = {});

}  // namespace lightcone
