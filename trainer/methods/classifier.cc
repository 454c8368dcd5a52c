#include <algorithm>
#include <cmath>

#include "base/dcheck.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/methods/method.h"

namespace lightcone {

Embedded EmbedPoints(const torch::Tensor& z, bool lorentz, double curvature, double clip_radius) {
  if (!lorentz) return {z, z, {}, {}};
  const torch::Tensor clipped = ClipNorm(z, clip_radius);
  return {z, clipped, ExpOrigin(clipped, curvature), {}};
}

HeadOptions HeadOptionsOf(const TrainConfig& config) {
  LC_DCHECK(FindTrainingMethod(config.method) != nullptr);
  HeadOptions options;
  HeadLossOptions& loss = options.loss;
  std::string name = config.base_loss;
  if (name == "auto") name = FindTrainingMethod(config.method)->base_loss;  // an empty name keeps the metric's loss
  if (name == "arcface") loss.loss = HeadLoss::kArcFace;
  if (name == "cosface") loss.loss = HeadLoss::kCosFace;
  if (name == "bce") loss.loss = HeadLoss::kBce;
  loss.scale = config.base_scale;
  loss.margin = config.base_margin;
  if (loss.margin == 0) loss.margin = loss.loss == HeadLoss::kCosFace ? 0.35 : 0.5;
  options.learn_curvature = config.learn_curvature;
  return options;
}

Classifier::Classifier(int64_t classes, int64_t dimension, bool lorentz, double curvature, double scale, uint64_t seed,
                       const HeadOptions& options)
    : lorentz_(lorentz), curvature_(curvature), loss_(options.loss) {
  torch::Generator generator = at::detail::createCPUGenerator(seed);
  const double bound = 1.0 / std::sqrt(static_cast<double>(dimension));
  weight_ = register_parameter("weight", torch::empty({classes, dimension}).uniform_(-bound, bound, generator));
  if (!IsAngular(loss_.loss)) {
    offset_ = register_parameter("offset", torch::empty({classes}).uniform_(-bound, bound, generator));
  }
  if (!lorentz_) return;
  if (options.learn_curvature) {
    log_curvature_ = register_parameter("log_curvature", torch::full({}, std::log(curvature), torch::kFloat32));
  }
  torch::NoGradGuard no_grad;
  weight_.mul_(scale);
}

void Classifier::PointNormals(const torch::Tensor& directions) {
  torch::NoGradGuard no_grad;
  const torch::Tensor wanted = directions.to(weight_.device());
  const torch::Tensor norms = weight_.norm(2, /*dim=*/1, /*keepdim=*/true);
  const torch::Tensor lengths = wanted.norm(2, /*dim=*/1, /*keepdim=*/true);
  weight_.copy_(torch::where(lengths > 0, wanted * (norms / torch::clamp_min(lengths, 1e-30)), weight_));
}

Embedded Classifier::Embed(const torch::Tensor& z, double clip_radius) const {
  if (!log_curvature_.defined()) return EmbedPoints(z, lorentz_, curvature_, clip_radius);
  const torch::Tensor clipped = ClipNorm(z, clip_radius), k = torch::exp(log_curvature_ * 0.5);
  return {z, clipped, ExpOrigin(clipped * k, 1.0), k};
}

torch::Tensor Classifier::Scores(const Embedded& embedded) const {
  if (lorentz_ && embedded.k.defined()) {
    return LorentzLogits(embedded.points, offset_ * embedded.k, weight_, 1.0) / embedded.k;
  }
  if (lorentz_) return LorentzLogits(embedded.points, offset_, weight_, curvature_);
  if (IsAngular(loss_.loss)) return CosineScores(embedded.z, weight_);
  return torch::addmm(offset_, embedded.z, weight_.t());
}

torch::Tensor Classifier::Logits(const Embedded& embedded) const {
  const torch::Tensor scores = Scores(embedded);
  return IsAngular(loss_.loss) ? scores * loss_.scale : scores;
}

torch::Tensor Classifier::LogitCosines(const Embedded& queries, const Embedded& rows) const {
  const torch::Tensor unit = UnitRows(Scores(queries));
  if (lorentz_) return torch::matmul(unit, UnitRows(Scores(rows).detach()).t());
  const bool angular = IsAngular(loss_.loss);
  const torch::Tensor w = (angular ? UnitRows(weight_) : weight_).detach(),
                      x = (angular ? UnitRows(rows.z) : rows.z).detach();
  // u (W x + b) = (u W) x + u b, and |W x + b|^2 = x (W^T W) x + 2 x W^T b + b b.
  torch::Tensor products = torch::matmul(torch::matmul(unit, w), x.t());
  torch::Tensor squares = (torch::matmul(x, torch::matmul(w.t(), w)) * x).sum(-1);
  if (offset_.defined()) {
    const torch::Tensor b = offset_.detach();
    products = products + torch::matmul(unit, b).unsqueeze(1);
    squares = squares + torch::matmul(x, torch::matmul(w.t(), b)) * 2.0 + torch::dot(b, b);
  }
  // Logits that cancel lose their length to rounding; a cosine stays one.
  return torch::clamp(products * torch::rsqrt(torch::clamp_min(squares, 1e-16)).unsqueeze(0), -1.0, 1.0);
}

torch::Tensor Classifier::Loss(const Embedded& embedded, const torch::Tensor& labels) const {
  if (loss_.loss == HeadLoss::kSoftmax) return torch::nn::functional::cross_entropy(Scores(embedded), labels);
  return HeadLossOf(Scores(embedded), labels, loss_).mean();
}

double Classifier::curvature() const {
  if (!log_curvature_.defined()) return curvature_;
  // exp of the rounded limit may lie beyond it.
  return std::clamp(std::exp(log_curvature_.item<double>()), curvature_ / 10, curvature_ * 10);
}

void Classifier::LimitCurvature() {
  if (!log_curvature_.defined()) return;
  torch::NoGradGuard no_grad;
  const double start = std::log(curvature_), reach = std::log(10.0);
  log_curvature_.clamp_(start - reach, start + reach);
}

}  // namespace lightcone
