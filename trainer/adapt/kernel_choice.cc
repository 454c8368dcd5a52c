#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/status.h"
#include "trainer/adapt/kernel_ridge_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kChoiceRows = 1'536;  // rows that the settings are chosen on
constexpr int kLooksMax = 40;           // limit of the settings that are tried
constexpr int64_t kNormalBlockRows = 4096;
constexpr std::array kSharpnesses = {0.125, 0.25, 0.5, 1.0, 2.0, 4.0};
constexpr std::array kLinears = {0.0, 0.0625, 0.25, 1.0, 4.0};
constexpr std::array kChoiceRidges = {3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0};

// Places in the three grids: sharpness, linear, lambda.
using GridPlace = std::array<int, 3>;
constexpr GridPlace kGridSizes = {static_cast<int>(kSharpnesses.size()), static_cast<int>(kLinears.size()),
                                  static_cast<int>(kChoiceRidges.size())};
constexpr GridPlace kUsualPlace = {3, 2, 5};  // the defaults of KernelSettings
constexpr GridPlace kOrderOfWalks = {2, 0, 1};

KernelSettings SettingsAt(const GridPlace& place) {
  return {kSharpnesses[static_cast<size_t>(place[0])], kLinears[static_cast<size_t>(place[1])],
          kChoiceRidges[static_cast<size_t>(place[2])]};
}

// Pairs around their means, in float64.
struct CentredPairs {
  Tensor x, y, mean_x, mean_y;
  double spread = 1;  // root mean square length of x, the unit of the settings
};

CentredPairs CentredOf(const Tensor& z, const Tensor& y, double radius) {
  CentredPairs pairs;
  pairs.x = ShortenedRows(z, radius);
  pairs.y = y.to(torch::kFloat64);
  pairs.mean_x = pairs.x.mean(0);
  pairs.mean_y = pairs.y.mean(0);
  pairs.x = pairs.x - pairs.mean_x;
  pairs.y = pairs.y - pairs.mean_y;
  const double spread = std::sqrt(pairs.x.square().sum(1).mean().item<double>());
  pairs.spread = spread > 1e-4 * radius ? spread : radius;  // equal inputs have no unit of their own
  return pairs;
}

// The kernel of the settings between rows whose distances are known.
Tensor SumKernel(const KernelSettings& s, double spread, const Tensor& distances, const Tensor& products) {
  Tensor kernel = torch::exp(distances * (-s.sharpness / spread));
  if (s.linear > 0) kernel.add_(products, s.linear / (spread * spread));
  return kernel;
}

// (K + lambda)^-1 times `right`; undefined where K + lambda is not positive definite in float64.
Tensor SolveRidge(Tensor kernel, double lambda, const Tensor& right) {
  kernel.diagonal().add_(lambda);
  const auto [factor, info] = torch::linalg_cholesky_ex(kernel);
  return info.item<int>() == 0 ? torch::cholesky_solve(right, factor) : Tensor();
}

// Losses of settings on the first rows, each computed once.
class SettingsSearch {
 public:
  SettingsSearch(const CentredPairs& pairs, const KernelChoice& choice)
      : choice_(choice), mean_y_(pairs.mean_y), spread_(pairs.spread) {
    const int64_t rows = std::min(pairs.x.size(0), kChoiceRows);
    const Tensor x = pairs.x.narrow(0, 0, rows);
    const Tensor held = ShortenedRows(choice.held_z, choice.radius) - pairs.mean_x;
    y_ = pairs.y.narrow(0, 0, rows);
    distances_ = RowDistances(x, x);
    products_ = torch::matmul(x, x.t());
    held_distances_ = RowDistances(held, x);
    held_products_ = torch::matmul(held, x.t());
  }

  // The best place that walks along one axis at a time reach; CANCELLED once stopped.
  absl::StatusOr<GridPlace> Walk() {
    GridPlace best = kUsualPlace;
    for (bool moved = true; moved;) {
      moved = false;
      for (const int axis : kOrderOfWalks) {
        for (const int step : {1, -1}) {
          for (bool better = true; better;) {
            if (choice_.stop != nullptr && choice_.stop->load()) return absl::CancelledError("fitting was stopped");
            GridPlace next = best;
            next[static_cast<size_t>(axis)] += step;
            better = IsPlace(next, axis) && LossAt(next) < LossAt(best);
            if (better) best = next;
            moved = moved || better;
          }
        }
      }
    }
    if (std::isinf(LossAt(best))) return FailedPrecondition("the kernel's equations cannot be solved for any ridge");
    return best;
  }

 private:
  static bool IsPlace(const GridPlace& place, int axis) {
    const auto i = static_cast<size_t>(axis);
    return place[i] >= 0 && place[i] < kGridSizes[i];
  }

  double LossAt(const GridPlace& place) {
    const auto known = losses_.find(place);
    if (known != losses_.end()) return known->second;
    if (losses_.size() >= kLooksMax) return std::numeric_limits<double>::infinity();
    const KernelSettings s = SettingsAt(place);
    const Tensor held = SumKernel(s, spread_, held_distances_, held_products_);
    // Whichever has fewer columns, the held-out rows or the targets, is solved for.
    Tensor kernel = SumKernel(s, spread_, distances_, products_), out;
    if (held.size(0) < y_.size(1)) {
      const Tensor weights = SolveRidge(std::move(kernel), s.lambda, held.t());
      if (weights.defined()) out = torch::matmul(weights.t(), y_);
    } else {
      const Tensor weights = SolveRidge(std::move(kernel), s.lambda, y_);
      if (weights.defined()) out = torch::matmul(held, weights);
    }
    const double loss = out.defined() ? choice_.loss(out + mean_y_) : std::numeric_limits<double>::infinity();
    losses_[place] = std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
    if (choice_.progress) choice_.progress(std::ssize(losses_), kLooksMax);
    return losses_[place];
  }

  const KernelChoice& choice_;
  const Tensor mean_y_;
  const double spread_;
  Tensor y_, distances_, products_, held_distances_, held_products_;
  std::map<GridPlace, double> losses_;
};

// Weights of the linear part [in, out] and of the centres [m, out].
struct KernelWeights {
  Tensor linear, centres;
};

// Every row is a centre: the dual equations.
KernelWeights SolveExactly(const CentredPairs& pairs, const KernelSettings& s) {
  const Tensor products = s.linear > 0 ? torch::matmul(pairs.x, pairs.x.t()) : Tensor();
  const Tensor weights =
      SolveRidge(SumKernel(s, pairs.spread, RowDistances(pairs.x, pairs.x), products), s.lambda, pairs.y);
  if (!weights.defined()) return {};
  return {torch::matmul(pairs.x.t(), weights) * (s.linear / (pairs.spread * pairs.spread)), weights};
}

// Fewer centres than rows: the normal equations of inputs and centres side by side.
KernelWeights SolveOnCentres(const CentredPairs& pairs, const Tensor& a, const KernelSettings& s,
                             const std::atomic<bool>* stop) {
  const int64_t d = s.linear > 0 ? pairs.x.size(1) : 0, m = a.size(0), n = pairs.x.size(0);
  const double gamma = s.sharpness / pairs.spread;
  Tensor normal = torch::zeros({d + m, d + m}, torch::kFloat64),
         right = torch::zeros({d + m, pairs.y.size(1)}, torch::kFloat64);
  for (int64_t begin = 0; begin < n; begin += kNormalBlockRows) {
    if (stop != nullptr && stop->load()) return {};
    const int64_t rows = std::min(kNormalBlockRows, n - begin);
    const Tensor x = pairs.x.narrow(0, begin, rows);
    Tensor features = torch::exp(RowDistances(x, a) * -gamma);
    if (d > 0) features = torch::cat({x, features}, 1);
    normal.addmm_(features.t(), features);
    right.addmm_(features.t(), pairs.y.narrow(0, begin, rows));
  }
  Tensor own = normal.narrow(0, d, m).narrow(1, d, m);
  own.add_(torch::exp(RowDistances(a, a) * -gamma), s.lambda);
  own.diagonal().add_(1e-8);
  if (d > 0) normal.narrow(0, 0, d).narrow(1, 0, d).diagonal().add_(s.lambda * pairs.spread * pairs.spread / s.linear);
  const Tensor weights = SolveRidge(std::move(normal), 0, right);
  if (!weights.defined()) return {};
  const Tensor linear =
      d > 0 ? weights.narrow(0, 0, d) : torch::zeros({pairs.x.size(1), pairs.y.size(1)}, torch::kFloat64);
  return {linear, weights.narrow(0, d, m)};
}

}  // namespace

absl::StatusOr<KernelMap> FitKernelByLoss(const Tensor& z, const Tensor& y, const KernelChoice& choice) {
  torch::NoGradGuard no_grad;
  const CentredPairs pairs = CentredOf(z, y, choice.radius);
  LC_ASSIGN_OR_RETURN(const GridPlace place, SettingsSearch(pairs, choice).Walk());
  const KernelSettings settings = SettingsAt(place);
  const int64_t n = z.size(0), linear_parts = settings.linear > 0 ? z.size(1) : 0;
  const int64_t centres = std::min(n, std::max(choice.parts_max - linear_parts, choice.parts_max / 2));
  KernelMap map;
  map.radius = choice.radius;
  map.sharpness = settings.sharpness / pairs.spread;
  map.lambda = settings.lambda;
  map.centres = ShortenedRows(SpreadRows(z, centres), choice.radius).to(torch::kFloat32);
  const KernelWeights weights =
      centres == n ? SolveExactly(pairs, settings)
                   : SolveOnCentres(pairs, map.centres.to(torch::kFloat64) - pairs.mean_x, settings, choice.stop);
  if (choice.stop != nullptr && choice.stop->load()) return absl::CancelledError("fitting was stopped");
  if (!weights.centres.defined()) return FailedPrecondition("the kernel's equations cannot be solved for any ridge");
  map.output = weights.centres.t().contiguous();
  map.linear.w = weights.linear.t().contiguous();
  map.linear.c = pairs.mean_y - torch::mv(map.linear.w, pairs.mean_x);
  map.linear.lambda = settings.lambda;
  return map;
}

}  // namespace lightcone
