#include <cmath>

#include "trainer/methods/classifier_torch.h"

namespace lightcone {

Embedded EmbedPoints(const torch::Tensor& z, bool lorentz, double curvature, double clip_radius) {
  if (!lorentz) return {z, z, {}};
  const torch::Tensor clipped = ClipNorm(z, clip_radius);
  return {z, clipped, ExpOrigin(clipped, curvature)};
}

Classifier::Classifier(int64_t classes, int64_t dimension, bool lorentz, double curvature, double scale, uint64_t seed)
    : lorentz_(lorentz), curvature_(curvature) {
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  const double bound = 1.0 / std::sqrt(static_cast<double>(dimension));
  weight_ = register_parameter("weight", torch::empty({classes, dimension}).uniform_(-bound, bound, generator));
  offset_ = register_parameter("offset", torch::empty({classes}).uniform_(-bound, bound, generator));
  if (!lorentz_) return;
  torch::NoGradGuard no_grad;
  weight_.mul_(scale);
}

void Classifier::PointNormals(const torch::Tensor& directions) {
  torch::NoGradGuard no_grad;
  const torch::Tensor norms = weight_.norm(2, /*dim=*/1, /*keepdim=*/true);
  const torch::Tensor lengths = directions.norm(2, /*dim=*/1, /*keepdim=*/true);
  weight_.copy_(torch::where(lengths > 0, directions * (norms / torch::clamp_min(lengths, 1e-30)), weight_));
}

torch::Tensor Classifier::Logits(const Embedded& embedded) const {
  if (lorentz_) return LorentzLogits(embedded.points, offset_, weight_, curvature_);
  return torch::addmm(offset_, embedded.z, weight_.t());
}

torch::Tensor Classifier::Loss(const Embedded& embedded, const torch::Tensor& labels) const {
  return torch::nn::functional::cross_entropy(Logits(embedded), labels);
}

}  // namespace lightcone
