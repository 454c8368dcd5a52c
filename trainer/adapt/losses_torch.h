// Distances and losses of adapters with gradients (docs/internals/adapters.md, Losses), in the dtype of their points.
// Only .cc files of trainer/ and tests include this. Threads: pure functions.
#pragma once

#include <torch/torch.h>

#include "geometry/adapter.h"
#include "geometry/metric.h"
#include "trainer/adapt/options.h"

namespace lightcone {

// Points of the space that distances are taken in: the hyperboloid (clipped at zeta) or the unit sphere. They have the
// dtype of `z`, but float64 where k zeta is above 4: products of float32 points then differ by less than their
// rounding. At k zeta = 8 a distance would be 0.4 off.
struct MetricPoints {
  torch::Tensor space;  // coordinates in space, [n, d]
  torch::Tensor time;   // time coordinates, [n]; lorentz only
};
MetricPoints LiftTo(const Space& space, const torch::Tensor& z);

// Distances of every row of `a` to every row of `b`, [n, m]; and of row i to row i, [n]. Lorentz: geodesic, between
// rows i by the half chord, without cancellation. Cosine: 1 - cos.
torch::Tensor MetricDistances(const Space& space, const MetricPoints& a, const MetricPoints& b);
torch::Tensor MetricRowDistances(const Space& space, const MetricPoints& a, const MetricPoints& b);

// A bank of pairs whose first `queries` rows are the queries.
struct AdaptBatch {
  torch::Tensor source, target;  // embeddings before the clip, [m, in] and [m, out]
  torch::Tensor labels;          // classes, [m] int64, or undefined
  int64_t queries = 0;
  torch::Tensor items = {};  // items of which rows are views, [m] int64; undefined: one item a row
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

  // The weighted sum, a scalar with a gradient. The term `sup` is 0 when no query has another item of its class.
  template <typename Map>
  torch::Tensor operator()(const Map& map, const AdaptBatch& batch) const {
    // Item adapters map the whole bank, query adapters the queries.
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
