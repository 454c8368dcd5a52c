#include <cmath>

#include "base/dcheck.h"
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

// The exponential of a square matrix by its Taylor polynomial of degree 8 (three products) and squarings, 1.5 ms at 128
// x 128. The library differentiates its own through the exponential of a matrix twice as wide, in 22 ms.
Tensor ExponentialOf(const Tensor& a) {
  // Up to this norm the remainder of the polynomial, norm^9 / 9!, is below the type's rounding.
  const double norm_max = a.scalar_type() == torch::kFloat64 ? 0.07 : 0.5;
  const double norm = a.detach().abs().sum(0).max().item<double>();
  const int squarings =
      norm > norm_max && std::isfinite(norm) ? static_cast<int>(std::ceil(std::log2(norm / norm_max))) : 0;
  const Tensor x = a * std::ldexp(1.0, -squarings), x2 = torch::matmul(x, x), x3 = torch::matmul(x2, x);
  const Tensor identity = torch::eye(a.size(0), a.options());
  const auto quadratic = [&](double c0, double c1, double c2) { return identity * c0 + x * c1 + x2 * c2; };
  Tensor sum = quadratic(1.0 / 720, 1.0 / 5040, 1.0 / 40320);
  sum = quadratic(1.0 / 6, 1.0 / 24, 1.0 / 120) + torch::matmul(x3, sum);
  sum = quadratic(1, 1, 0.5) + torch::matmul(x3, sum);
  for (int i = 0; i < squarings; ++i) sum = torch::matmul(sum, sum);
  return sum;
}

}  // namespace

Tensor OrthogonalOf(const Tensor& free, bool cayley) {
  const Tensor lower = torch::tril(free, -1);
  const Tensor skew = lower - lower.t();
  if (!cayley) return ExponentialOf(skew);
  const Tensor identity = torch::eye(free.size(0), free.options());
  return torch::linalg_solve(identity - skew * 0.5, identity + skew * 0.5);
}

// The released f has n outputs, normalises them, keeps d and normalises again. The n - d others cancel out of value and
// gradient, and are left out here.
Bt2Parts ApplyBt2(const Tensor& phi1, const Bt2Shape& shape, const Tensor& b1, const Tensor& b2, const Tensor& f_weight,
                  const Tensor& f_bias) {
  const int64_t shared = shape.old_dimension - shape.extra;  // numbers of phi4 that compare with old vectors
  Bt2Parts parts;
  parts.phi3 = UnitRows(phi1.narrow(1, 0, shape.new_dimension));
  parts.phi2 = UnitRows(torch::linear(shape.relu_input ? torch::relu(phi1) : phi1, f_weight, f_bias));
  const Tensor phi4 = torch::matmul(parts.phi3, b1.t()) * shape.scale;
  parts.phi5 = torch::matmul(torch::cat({parts.phi2, phi4.narrow(1, 0, shared)}, 1), b2.t());
  parts.phi_new = torch::cat({parts.phi5, phi4.narrow(1, shared, shape.new_dimension - shared)}, 1);
  return parts;
}

Bt2Transform::Bt2Transform(const Bt2Shape& shape, uint64_t seed) : shape_(shape) {
  LC_DCHECK(shape.extra >= 1 && shape.extra < shape.old_dimension &&
            shape.old_dimension - shape.extra <= shape.new_dimension);
  LC_DCHECK(1 <= shape.extra && shape.extra < shape.old_dimension);
  LC_DCHECK(shape.old_dimension - shape.extra <= shape.new_dimension);
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
