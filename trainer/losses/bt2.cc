#include <cmath>

#include "trainer/losses/bt2_torch.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// The orthogonal factor of a matrix drawn as a linear layer's weights, with the sign that makes it unique.
Tensor DrawOrthogonal(int64_t size, torch::Generator& generator) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(size));
  const Tensor drawn = torch::empty({size, size}, torch::kFloat64).uniform_(-bound, bound, generator);
  const auto [q, r] = torch::linalg_qr(drawn);
  const Tensor diagonal = r.diagonal();
  return (q * torch::where(diagonal < 0, -torch::ones_like(diagonal), torch::ones_like(diagonal))).to(torch::kFloat32);
}

// Mean of 1 - <a_i, b_i>.
Tensor CosineGap(const Tensor& a, const Tensor& b) { return 1.0 - (a * b).sum(-1).mean(); }

}  // namespace

Tensor OrthogonalOf(const Tensor& free, bool cayley) {
  const Tensor lower = torch::tril(free, -1);
  const Tensor skew = lower - lower.t();
  if (!cayley) return torch::matrix_exp(skew);
  const Tensor identity = torch::eye(free.size(0), free.options());
  return torch::linalg_solve(identity - skew * 0.5, identity + skew * 0.5);
}

// The released f has n outputs, normalises them, keeps d and normalises again: the n - d others cancel out of value
// and gradient, so they are left out here.
Bt2Parts ApplyBt2(const Tensor& phi1, const Bt2Shape& shape, const Tensor& b1, const Tensor& b2, const Tensor& f_weight,
                  const Tensor& f_bias) {
  const int64_t shared = shape.old_dimension - shape.extra;  // numbers of phi4 that old vectors are compared with
  Bt2Parts parts;
  parts.phi3 = UnitRows(phi1.narrow(1, 0, shape.new_dimension));
  parts.phi2 = UnitRows(torch::linear(shape.relu_input ? torch::relu(phi1) : phi1, f_weight, f_bias));
  const Tensor phi4 = torch::matmul(parts.phi3, b1.t()) * shape.scale;
  parts.phi5 = torch::matmul(torch::cat({parts.phi2, phi4.narrow(1, 0, shared)}, 1), b2.t());
  parts.phi_new = torch::cat({parts.phi5, phi4.narrow(1, shared, shape.new_dimension - shared)}, 1);
  return parts;
}

Bt2Transform::Bt2Transform(const Bt2Shape& shape, uint64_t seed) : shape_(shape) {
  torch::NoGradGuard no_grad;
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  const double bound = 1.0 / std::sqrt(static_cast<double>(shape.input()));
  const int64_t m = shape.new_dimension, n = shape.old_dimension;
  f_weight_ = register_parameter("f_weight", torch::empty({shape.extra, m + n}).uniform_(-bound, bound, generator));
  f_bias_ = register_parameter("f_bias", torch::empty({shape.extra}).uniform_(-bound, bound, generator));
  free1_ = register_parameter("free1", torch::zeros({m, m}));
  free2_ = register_parameter("free2", torch::zeros({n, n}));
  base1_ = register_buffer("base1", DrawOrthogonal(m, generator));
  base2_ = register_buffer("base2", DrawOrthogonal(n, generator));
}

Tensor Bt2Transform::B1() const { return torch::matmul(base1_, OrthogonalOf(free1_, shape_.cayley)); }
Tensor Bt2Transform::B2() const { return torch::matmul(base2_, OrthogonalOf(free2_, shape_.cayley)); }

Bt2Parts Bt2Transform::Apply(const Tensor& phi1) const {
  return ApplyBt2(phi1, shape_, B1(), B2(), f_weight_, f_bias_);
}

std::function<Tensor(const Tensor&)> Bt2Transform::Frozen() const {
  torch::NoGradGuard no_grad;
  const auto constant = [](const Tensor& x) { return x.detach().cpu().clone(); };
  return [shape = shape_, b1 = constant(B1()), b2 = constant(B2()), weight = constant(f_weight_),
          bias = constant(f_bias_)](const Tensor& phi1) { return ApplyBt2(phi1, shape, b1, b2, weight, bias).phi_new; };
}

Bt2Losses Bt2Compatibility(const Bt2Parts& parts, const Tensor& labels, const Tensor& pseudo_heads,
                           const Tensor& old_vectors, const Tensor& base_vectors, const Bt2Weights& weights) {
  Bt2Losses out;
  const Tensor unit5 = UnitRows(parts.phi5);
  out.pseudo =
      torch::nn::functional::cross_entropy(WithoutEmpty(torch::matmul(unit5, pseudo_heads.t()), pseudo_heads), labels);
  out.old = CosineGap(unit5, old_vectors);
  out.total = weights.lambda2 * out.pseudo + weights.lambda3 * out.old;
  if (base_vectors.defined()) {
    out.base_model = CosineGap(parts.phi3, base_vectors);
    out.total = out.total + weights.lambda1 * out.base_model;
  }
  return out;
}

}  // namespace lightcone
