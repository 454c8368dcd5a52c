#include <algorithm>
#include <limits>

#include "base/dcheck.h"
#include "base/status.h"
#include "trainer/adapt/kernel_ridge_torch.h"
#include "trainer/losses/lorentz_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kKernelBlockRows = 4096;
constexpr double kRelativeSharpness = 0.25;  // sharpness in units of 1 / radius
constexpr double kKernelRidges[] = {1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100};

Tensor LaplaceKernel(const Tensor& x, const Tensor& a, double gamma) { return RowDistances(x, a).mul_(-gamma).exp_(); }

}  // namespace

Tensor ShortenedRows(const Tensor& z, double radius) { return ClipNorm(z.to(torch::kFloat64), radius); }

Tensor RowDistances(const Tensor& x, const Tensor& a) {
  LC_DCHECK(x.scalar_type() == torch::kFloat64 && a.scalar_type() == torch::kFloat64);
  Tensor square = torch::addmm(x.square().sum(1, true), x, a.t(), 1, -2) + a.square().sum(1).unsqueeze(0);
  return square.clamp_min_(0).sqrt_();
}

Tensor SpreadRows(const Tensor& z, int64_t count) {
  LC_DCHECK(count >= 1 && count <= z.size(0));
  const double step = static_cast<double>(z.size(0)) / static_cast<double>(count);
  return z.index_select(0, (torch::arange(count, torch::kFloat64) * step).to(torch::kInt64));
}

Tensor KernelMap::Linear(const Tensor& z) const {
  return torch::matmul(ShortenedRows(z, radius), linear.w.t()) + linear.c;
}

void KernelMap::Lengthen(double factor) {
  linear.w = linear.w * factor;
  linear.c = linear.c * factor;
  output = output * factor;
}

Tensor KernelMap::operator()(const Tensor& z) const {
  const Tensor a = centres.to(torch::kFloat64);
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < z.size(0); begin += kKernelBlockRows) {
    const Tensor x = ShortenedRows(z.narrow(0, begin, std::min(kKernelBlockRows, z.size(0) - begin)), radius);
    parts.push_back(torch::matmul(x, linear.w.t()) + linear.c +
                    torch::matmul(LaplaceKernel(x, a, sharpness), output.t()));
  }
  return torch::cat(parts);
}

absl::StatusOr<KernelMap> FitKernel(const Tensor& z, const Tensor& y, const Tensor& held_z, const Tensor& held_y,
                                    int64_t centres, double radius, const std::atomic<bool>* stop) {
  torch::NoGradGuard no_grad;
  KernelMap map;
  map.radius = radius;
  map.sharpness = kRelativeSharpness / radius;
  const int64_t n = z.size(0);
  map.linear = FitRidge(ShortenedRows(z, radius).to(torch::kFloat32), y);
  map.centres = ShortenedRows(SpreadRows(z, centres), radius).to(torch::kFloat32);
  const Tensor a = map.centres.to(torch::kFloat64);
  Tensor normal = torch::zeros({centres, centres}, torch::kFloat64),
         right = torch::zeros({centres, y.size(1)}, torch::kFloat64);
  const auto stopped = [&] { return stop != nullptr && stop->load(); };
  for (int64_t begin = 0; begin < n; begin += kKernelBlockRows) {
    if (stopped()) return absl::CancelledError("fitting was stopped");
    const int64_t rows = std::min(kKernelBlockRows, n - begin);
    const Tensor x = ShortenedRows(z.narrow(0, begin, rows), radius), k = LaplaceKernel(x, a, map.sharpness);
    const Tensor rest =
        y.narrow(0, begin, rows).to(torch::kFloat64) - torch::matmul(x, map.linear.w.t()) - map.linear.c;
    normal.addmm_(k.t(), k);
    right.addmm_(k.t(), rest);
  }
  const Tensor own = LaplaceKernel(a, a, map.sharpness), tiny = torch::eye(centres, torch::kFloat64) * 1e-8;
  const Tensor held = LaplaceKernel(ShortenedRows(held_z, radius), a, map.sharpness);
  const Tensor held_rest = held_y.to(torch::kFloat64) - map.Linear(held_z);
  double best = std::numeric_limits<double>::infinity();
  for (const double lambda : kKernelRidges) {
    if (stopped()) return absl::CancelledError("fitting was stopped");
    const auto [factor, info] = torch::linalg_cholesky_ex(normal + own * lambda + tiny);
    if (info.item<int>() != 0) continue;  // not positive definite in float64; a greater lambda works
    const Tensor output = torch::cholesky_solve(right, factor);
    const double error = (torch::matmul(held, output) - held_rest).square().sum(1).mean().item<double>();
    if (error < best) {
      best = error;
      map.lambda = lambda;
      map.output = output.t().contiguous();
    }
  }
  if (!map.output.defined()) return FailedPrecondition("the kernel's equations cannot be solved for any ridge");
  return map;
}

}  // namespace lightcone
