#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kBlockRows = 1024;  // rows whose distances to all classes are computed at once

// |x| of each row; its gradient at 0 is 0.
Tensor LengthOf(const Tensor& rows) { return torch::sqrt(torch::clamp_min((rows * rows).sum(1), 1e-16)); }

// The largest of `distances` without outliers.
Tensor RadiusOf(const Tensor& distances) {
  const Tensor low = torch::quantile(distances, 0.25), high = torch::quantile(distances, 0.75);
  const Tensor reach = (high - low) * 1.5;
  const Tensor inside = torch::logical_and(distances >= low - reach, distances <= high + reach);
  return torch::where(inside, distances, torch::zeros_like(distances)).max();
}

}  // namespace

Tensor ClassMeansOf(const Tensor& features, const Tensor& labels, int64_t classes) {
  const Tensor sums = torch::zeros({classes, features.size(1)}, features.options()).index_add(0, labels, features);
  const Tensor counts = torch::bincount(labels, /*weights=*/{}, /*minlength=*/classes);
  return sums / torch::clamp_min(counts, 1).unsqueeze(1).to(features.scalar_type());
}

Tensor WithoutEmpty(const Tensor& logits, const Tensor& means) { return logits.masked_fill((means == 0).all(1), -1e9); }

Tensor PrototypeLoss(const Tensor& z, const Tensor& prototypes, const Tensor& labels, double scale) {
  return torch::nn::functional::cross_entropy(
      WithoutEmpty(torch::matmul(UnitRows(z), prototypes.t()) * scale, prototypes), labels,
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
}

Tensor RefinedPrototypes(const Tensor& fresh, const Tensor& old, const Tensor& labels, int64_t classes,
                         const RefineOptions& options) {
  torch::NoGradGuard no_grad;
  const Tensor prototypes = torch::zeros({classes, old.size(1)}, old.options());
  ForEachClass(labels, [&](int64_t c, const Tensor& all_rows) {
    const Tensor rows = all_rows.narrow(0, 0, std::min(all_rows.size(0), kRefineRowsMax));
    const Tensor vertices = fresh.index_select(0, rows);
    // A single vertex keeps its edge to itself: the softmax of -1e9 alone is 1, that of -inf is undefined.
    const Tensor edges =
        torch::softmax((torch::matmul(vertices, vertices.t()) / options.tau).fill_diagonal_(-1e9), /*dim=*/1);
    const Tensor system = torch::eye(rows.size(0), edges.options()) - edges * options.damping;
    const Tensor walked = torch::linalg_solve(system, old.index_select(0, rows)) * (1.0 - options.damping);
    prototypes[c].copy_(walked.mean(0));
  });
  return prototypes;
}

Tensor NeighbourLoss(const Tensor& similarities, const Tensor& weights, const Tensor& labels,
                     const Tensor& queue_labels) {
  if (queue_labels.size(0) == 0) return similarities.sum();
  const Tensor positive = labels.unsqueeze(1) == queue_labels.unsqueeze(0);
  const Tensor terms = torch::log_softmax(similarities, 1) * weights;
  const Tensor sum = torch::where(positive, terms, torch::zeros_like(terms)).sum(1);
  return -(sum / torch::clamp_min(positive.sum(1), 1)).mean();
}

Tensor CredibleRows(const Tensor& features, const Tensor& labels, int64_t classes, double share) {
  torch::NoGradGuard no_grad;
  if (share >= 1) return torch::ones({features.size(0)}, torch::kBool);
  const Tensor means = ClassMeansOf(features, labels, classes);
  const Tensor own = LengthOf(features - means.index_select(0, labels));
  const double variance = std::max(own.var(/*unbiased=*/false).item<double>(), 1e-6);
  const double entropy_max =
      share *
      std::log(static_cast<double>((torch::bincount(labels, /*weights=*/{}, classes) > 0).sum().item<int64_t>()));
  std::vector<Tensor> credible;
  for (int64_t begin = 0; begin < features.size(0); begin += kBlockRows) {
    const Tensor block = features.narrow(0, begin, std::min(kBlockRows, features.size(0) - begin));
    const Tensor log_p = torch::log_softmax(WithoutEmpty(torch::cdist(block, means) * (-1.0 / variance), means), 1);
    credible.push_back((-(log_p.exp() * log_p).sum(1)) <= entropy_max);
  }
  return torch::cat(credible, 0);
}

ClassBalls ClassBallsOf(const Tensor& features, const Tensor& labels, int64_t classes) {
  torch::NoGradGuard no_grad;
  ClassBalls balls{ClassMeansOf(features, labels, classes), torch::zeros({classes}, features.options())};
  const Tensor distances = LengthOf(features - balls.centres.index_select(0, labels));
  ForEachClass(labels,
               [&](int64_t c, const Tensor& rows) { balls.radii[c].copy_(RadiusOf(distances.index_select(0, rows))); });
  return balls;
}

Tensor PointToSetLoss(const Tensor& z, const Tensor& labels, const ClassBalls& balls, const Tensor& elastic) {
  const Tensor distance = LengthOf(UnitRows(z) - balls.centres.index_select(0, labels));
  Tensor reach = balls.radii.index_select(0, labels);
  if (elastic.defined()) reach = reach + (1.0 - reach) * torch::sigmoid(elastic.index_select(0, labels));
  const Tensor beyond = torch::relu(distance - reach);
  return beyond.sum() / torch::clamp_min((beyond > 0).sum(), 1);
}

Tensor ReverseGradient(const Tensor& x, double alpha) { return x.detach() * (1.0 + alpha) - x * alpha; }

}  // namespace lightcone
