#include <limits>
#include <map>

#include "trainer/losses/hypmix_torch.h"
#include "trainer/losses/lorentz_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

Tensor Logits(const Tensor& x, const Tensor& y, const HypMixOptions& options) {
  if (options.geometry == HypMixGeometry::kHyperbolic) {
    return HypMixDistances(x, y, options.curvature) * (-1.0 / options.tau_h);
  }
  const Tensor cosine = torch::matmul(x, y.t()) * (1.0 / options.tau_e);
  if (options.geometry == HypMixGeometry::kSpherical) return cosine;
  return cosine - HypMixDistances(x, y, options.curvature) * (options.lambda / options.tau_h);
}

// Row i of `x` should find row i of `y` among `y` and the other rows of `x`.
Tensor OneDirection(const Tensor& x, const Tensor& y, const HypMixOptions& options, const Tensor& same_class) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const Tensor self = torch::eye(x.size(0), same_class.options());
  const Tensor across =
      Logits(x, y, options).masked_fill(torch::logical_and(same_class, torch::logical_not(self)), kNever);
  const Tensor within = Logits(x, x, options).masked_fill(same_class, kNever);
  return (torch::logsumexp(torch::cat({across, within}, 1), 1) - across.diagonal()).mean();
}

}  // namespace

// A ball of curvature -c and the hyperboloid with K = c are isometric, and the ball's exponential map at the origin
// (metric factor 2 there) carries v to distance 2|v|: the points are those of the hyperboloid's map at 2v.
Tensor HypMixDistances(const Tensor& x, const Tensor& y, double curvature) {
  return DistanceMatrix(ExpOrigin(x * 2.0, curvature), ExpOrigin(y * 2.0, curvature), curvature,
                        LossDistance::kGeodesic);
}

Tensor HypMixLoss(const Tensor& view0, const Tensor& view1, const HypMixOptions& options, const Tensor& labels) {
  const int64_t n = view0.size(0);
  if (n == 0) return (view0.sum() + view1.sum()) * 0.0;
  const Tensor same_class = labels.defined() ? labels.unsqueeze(0) == labels.unsqueeze(1)
                                             : torch::eye(n, torch::dtype(torch::kBool).device(view0.device()));
  const Tensor x0 = UnitRows(view0), x1 = UnitRows(view1);
  return OneDirection(x0, x1, options, same_class) + OneDirection(x1, x0, options, same_class);
}

ViewPairs PairsOfOneClass(const std::vector<int64_t>& labels) {
  ViewPairs pairs;
  std::map<int64_t, int64_t> waiting;  // position without a partner, by label
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t position = static_cast<int64_t>(i);
    const auto [found, fresh] = waiting.emplace(labels[i], position);
    if (fresh) continue;
    pairs.first.push_back(found->second);
    pairs.second.push_back(position);
    waiting.erase(found);
  }
  return pairs;
}

}  // namespace lightcone
