#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "trainer/adapt/network_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

double RootMeanSquareNorm(const Tensor& x) {
  const double mean = x.to(torch::kFloat64).square().sum(1).mean().item<double>();
  return mean > 0 ? std::sqrt(mean) : 1.0;
}

Tensor Parameter(const Tensor& values) {
  return values.to(torch::kFloat32).contiguous().clone().set_requires_grad(true);
}

std::vector<float> Numbers(const Tensor& values, double factor) {
  if (!values.defined()) return {};
  const Tensor flat = (values.detach().to(torch::kFloat64) * factor).to(torch::kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

}  // namespace

AdapterNetwork::AdapterNetwork(const AdaptOptions& options, const LinearMap& linear, const Tensor& x, const Tensor& y) {
  frame_.direction = options.direction;
  frame_.kind = options.kind;
  frame_.input_dimension = options.source.dimension;
  frame_.target = options.target;
  rho_ = RootMeanSquareNorm(x);
  sigma_ = RootMeanSquareNorm(y);
  const double scale = rho_ / sigma_;
  if (options.kind == AdapterKind::kProcrustes) {
    linear_ = (FitProcrustes(x, y, options.target.metric == Metric::kLorentz) * scale).to(torch::kFloat32);
    return;
  }
  offset_ = Parameter(linear.c / sigma_);
  if (options.kind == AdapterKind::kLowRankAffine) {
    StartLowRank(options, linear, x, y);
    return;
  }
  linear_ = Parameter(linear.w * scale);
  trains_linear_ = true;
  if (options.kind == AdapterKind::kResidualMlp) StartHidden(options);
}

void AdapterNetwork::StartLowRank(const AdaptOptions& options, const LinearMap& linear, const Tensor& x,
                                  const Tensor& y) {
  frame_.width = options.rank;
  Tensor rest = linear.w;
  if (options.source.dimension == options.target.dimension) {
    rest = rest - torch::eye(options.source.dimension, torch::kFloat64);
  } else {
    const Tensor p = FitProcrustes(x, y, options.target.metric == Metric::kLorentz);
    rest = rest - p;
    linear_ = (p * (rho_ / sigma_)).to(torch::kFloat32);
  }
  const LowRank factors = FactorLowRank(rest, x, options.rank);
  const double share = std::sqrt(rho_ / sigma_);
  hidden_ = Parameter(factors.v.t() * share);
  output_ = Parameter(factors.u * share);
}

// A as torch's linear layers start, from a generator of our own; B at 0, so that training starts from the linear map.
void AdapterNetwork::StartHidden(const AdaptOptions& options) {
  frame_.width = options.width;
  const int64_t width = options.width, in = options.source.dimension;
  Rng rng(MixSeed({options.seed, 0xada97e5u}));
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  hidden_ = Parameter(DrawUniform({width, in}, bound, rng));
  hidden_offset_ = Parameter(DrawUniform({width}, bound, rng));
  output_ = Parameter(torch::zeros({options.target.dimension, width}));
}

Tensor AdapterNetwork::Hidden(const Tensor& z) const {
  return torch::relu(torch::addmm(hidden_offset_, z * (1.0 / rho_), hidden_.t()));
}

Tensor AdapterNetwork::Forward(const Tensor& z) const {
  const Tensor x = z * (1.0 / rho_);
  Tensor y = linear_.defined() ? torch::matmul(x, linear_.t()) : x * (rho_ / sigma_);
  if (offset_.defined()) y = y + offset_;
  if (hidden_.defined()) {
    const Tensor units = hidden_offset_.defined() ? torch::relu(torch::addmm(hidden_offset_, x, hidden_.t()))
                                                  : torch::matmul(x, hidden_.t());
    y = y + torch::matmul(units, output_.t());
  }
  return y * sigma_;
}

std::vector<Tensor> AdapterNetwork::parameters() const {
  std::vector<Tensor> all;
  if (trains_linear_) all.push_back(linear_);
  for (const Tensor& one : {offset_, hidden_, hidden_offset_, output_}) {
    if (one.defined()) all.push_back(one);
  }
  return all;
}

std::vector<Tensor> AdapterNetwork::Snapshot() const {
  std::vector<Tensor> copies;
  for (const Tensor& one : parameters()) copies.push_back(one.detach().clone());
  return copies;
}

void AdapterNetwork::Restore(const std::vector<Tensor>& snapshot) {
  torch::NoGradGuard no_grad;
  std::vector<Tensor> all = parameters();
  for (size_t i = 0; i < all.size(); ++i) all[i].copy_(snapshot[i]);
}

AdapterSpec AdapterNetwork::Export() const {
  AdapterSpec spec = frame_;
  spec.linear = Numbers(linear_, sigma_ / rho_);
  spec.offset = Numbers(offset_, sigma_);
  spec.hidden = Numbers(hidden_, 1.0 / rho_);
  spec.hidden_offset = Numbers(hidden_offset_, 1.0);
  spec.output = Numbers(output_, sigma_);
  return spec;
}

}  // namespace lightcone
