#include <cmath>

#include "trainer/losses/margin_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// cos(theta + m) of the target's cosine [n, 1].
Tensor WithAngularMargin(const Tensor& cosine, double margin) {
  // At theta = 0 and pi the slope of theta is infinite. The floor is what float32 can tell from 1.
  const double edge = 1.0 - (cosine.scalar_type() == torch::kFloat64 ? 1e-12 : 2e-7);
  const Tensor inner = torch::clamp(cosine, -edge, edge);
  const Tensor sine = torch::sqrt(1.0 - inner * inner);
  const Tensor turned = inner * std::cos(margin) - sine * std::sin(margin);
  return torch::where(cosine > -std::cos(margin), turned, cosine - margin * std::sin(margin));
}

Tensor CrossEntropy(const Tensor& logits, const Tensor& labels) {
  return torch::nn::functional::cross_entropy(logits, labels,
                                              torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
}

}  // namespace

Tensor CosineScores(const Tensor& z, const Tensor& weight) {
  return torch::clamp(torch::matmul(UnitRows(z), UnitRows(weight).t()), -1.0, 1.0);
}

Tensor HeadLossOf(const Tensor& scores, const Tensor& labels, const HeadLossOptions& options) {
  const Tensor column = labels.unsqueeze(1);
  switch (options.loss) {
    case HeadLoss::kSoftmax:
      return CrossEntropy(scores, labels);
    case HeadLoss::kBce:
      return torch::softplus(scores).sum(1) - scores.gather(1, column).squeeze(1);
    case HeadLoss::kArcFace: {
      const Tensor target = WithAngularMargin(scores.gather(1, column), options.margin);
      return CrossEntropy(scores.scatter(1, column, target) * options.scale, labels);
    }
    case HeadLoss::kCosFace: {
      const Tensor target = scores.gather(1, column) - options.margin;
      return CrossEntropy(scores.scatter(1, column, target) * options.scale, labels);
    }
  }
  return {};
}

}  // namespace lightcone
