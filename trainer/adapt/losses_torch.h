// Distances and losses of adapters with gradients (docs/internals/adapters.md, Losses), in the dtype of their points.
// Only .cc files of trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include "geometry/adapter.h"
#include "geometry/metric.h"
#include "trainer/adapt/options.h"

namespace lightcone {

// Embeddings before the clip, brought to where distances are taken: the hyperboloid (clipped at zeta) or the unit
// sphere. In the dtype of `z`, but float64 from a clip radius on (k zeta above 4) where the products of float32 points
// differ by less than their rounding: at k zeta = 8 a distance from them would be .4 off.
struct MetricPoints {
  torch::Tensor space;  // [n, d]
  torch::Tensor time;   // [n]; lorentz only
};
MetricPoints LiftTo(const Space& space, const torch::Tensor& z);

// Distance of every row of `a` to every row of `b`, [n, m]; of row i to row i, [n]. Lorentz geodesic (the second by the
// half chord, without cancellation), cosine 1 - cos.
torch::Tensor MetricDistances(const Space& space, const MetricPoints& a, const MetricPoints& b);
torch::Tensor MetricRowDistances(const Space& space, const MetricPoints& a, const MetricPoints& b);

// A bank of pairs whose first `queries` rows are the queries.
struct AdaptBatch {
  torch::Tensor source, target;  // [m, in], [m, out], before the clip
  torch::Tensor labels;          // [m] int64, or undefined
  int64_t queries = 0;
  torch::Tensor items = {};  // [m] int64: rows of one number are views of one item; or undefined: each row its own
};

// The loss terms with a map f given as a function of source rows.
class AdaptObjective {
 public:
  AdaptObjective(const AdaptLoss& loss, const AdaptOptions& options)
      : loss_(loss),
        direction_(options.direction),
        source_(options.source),
        target_(options.target),
        temperature_(options.temperature) {}

  // The weighted sum, a scalar with a gradient. With sup: 0 for that term when no query has another item of its class.
  template <typename Map>
  torch::Tensor operator()(const Map& map, const AdaptBatch& batch) const {
    // Item adapters carry the whole bank over, query adapters the queries.
    const bool all = direction_ == AdapterDirection::kItem && loss_.needs_bank();
    return Sum(LiftTo(target_, map(all ? batch.source : batch.source.narrow(0, 0, batch.queries))), batch);
  }

 private:
  torch::Tensor Sum(const MetricPoints& adapted, const AdaptBatch& batch) const;
  torch::Tensor BankTerms(const torch::Tensor& student, const AdaptBatch& batch, const MetricPoints& targets) const;

  AdaptLoss loss_;
  AdapterDirection direction_;
  Space source_, target_;
  double temperature_;
};

}  // namespace lightcone
