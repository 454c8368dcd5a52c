// Lightcone's own method (docs/internals/training-methods.md, Lightcone): a training, compatible as HBCT's or not at
// all, that ends with an adapter fitted to the finished models (docs/internals/adapters.md). An adapter g may be
// trained beside the network and map old embeddings into the space that is being learnt. The network is drawn towards
// g(old) in place of the old embeddings, and so keeps its freedom. g is not exported.
#include <cmath>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/losses/contrast_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr uint64_t kCarrierStream = 0xca881e8;

// g(o) = W o + c + B relu(A o + a), as the adapter `residual-mlp`. W starts at the identity between spaces of one
// dimension and B at 0.
class Carrier : public torch::nn::Module {
 public:
  Carrier(int64_t from, int64_t to, int64_t width, uint64_t seed) {
    Rng rng(MixSeed({seed, kCarrierStream}));
    const double bound = 1.0 / std::sqrt(static_cast<double>(from));
    const auto drawn = [&](c10::IntArrayRef shape) { return DrawUniform(shape, bound, rng); };
    linear_ = register_parameter("linear", from == to ? torch::eye(from) : drawn({to, from}));
    offset_ = register_parameter("offset", torch::zeros({to}));
    hidden_ = register_parameter("hidden", drawn({width, from}));
    hidden_offset_ = register_parameter("hidden_offset", drawn({width}));
    output_ = register_parameter("output", torch::zeros({to, width}));
  }

  Tensor Forward(const Tensor& old) const {
    const Tensor units = torch::relu(torch::addmm(hidden_offset_, old, hidden_.t()));
    return torch::addmm(offset_, old, linear_.t()) + torch::matmul(units, output_.t());
  }

 private:
  Tensor linear_, offset_, hidden_, hidden_offset_, output_;
};

class Lightcone : public TrainingMethod {
 public:
  // `inner`: the training that this one adds to. It has no module of its own.
  Lightcone(const MethodContext& context, std::unique_ptr<TrainingMethod> inner)
      : context_(context), inner_(std::move(inner)) {
    const TrainConfig& c = context.config;
    if (OnlyThroughAdapter(c) || c.lightcone.lambda > 0) {
      carrier_ = std::make_shared<Carrier>(context.old_model->manifest().dimension, c.encoder.dimension,
                                           c.lightcone.width, c.seed);
    }
  }

  absl::Status Start(Classifier& classifier) override { return inner_->Start(classifier); }

  LossTerms Loss(const StepBatch& batch, const Tensor& z) override {
    LossTerms terms = inner_->Loss(batch, z);
    if (carrier_ == nullptr) return terms;
    const Tensor carried = carrier_->Forward(OldOf(batch));
    // Two terms, so that g is fitted at full weight while the network may be drawn weakly.
    const Tensor fit = Alignment(z.detach(), carried, batch.labels);
    terms.total = terms.total + fit;
    terms.parts.emplace_back("carry", fit.detach());
    const double lambda = context_.config.lightcone.lambda;
    if (lambda > 0) terms.total = terms.total + lambda * Alignment(z, carried.detach(), batch.labels);
    return terms;
  }

  std::shared_ptr<torch::nn::Module> module() override { return carrier_; }

 private:
  // The input of g: embeddings before the clip, or unit vectors for cosine.
  Tensor OldOf(const StepBatch& batch) const {
    torch::NoGradGuard no_grad;
    const Tensor old = context_.old_model->Embed(batch.images);
    return context_.old_model->manifest().metric == "cosine" ? UnitRows(old) : old;
  }

  Tensor Alignment(const Tensor& z, const Tensor& carried, const Tensor& labels) const {
    const TrainConfig& c = context_.config;
    const bool lorentz = c.metric == "lorentz";
    return CarriedAlignment(c.lightcone, EmbedPoints(z, lorentz, c.curvature, c.clip_radius),
                            EmbedPoints(carried, lorentz, c.curvature, c.clip_radius), lorentz, c.curvature, labels);
  }

  const MethodContext context_;
  const std::unique_ptr<TrainingMethod> inner_;
  std::shared_ptr<Carrier> carrier_;  // g; nullptr without an adapter in training
};

}  // namespace

torch::Tensor CarriedAlignment(const LightconeConfig& config, const Embedded& fresh, const Embedded& carried,
                               bool lorentz, double curvature, const torch::Tensor& labels) {
  const Tensor distances = lorentz ? DistanceMatrix(fresh.points, carried.points, curvature, LossDistance::kGeodesic)
                                   : 1 - torch::matmul(UnitRows(fresh.z), UnitRows(carried.z).t());
  if (config.alignment == "distance") return distances.diagonal().mean();
  return InfoNceLoss(distances, config.tau, SameClassPairs(labels)).mean();
}

MethodEntry LightconeMethod() {
  MethodEntry entry;
  entry.info.name = "lightcone";
  entry.info.help =
      "HBCT with a weight that falls to 0, or a training drawn towards carried old embeddings; then an item adapter";
  entry.info.source =
      "ours (docs/internals/training-methods.md, Lightcone); the adapter as FCT and FastFill, the rest as HBCT";
  entry.info.needs_old_model = true;
  entry.info.ends_with_adapter = true;
  entry.info.switches = HbctMethod().info.switches;
  for (const char* own :
       {"lightcone.compatible", "lightcone.lambda", "lightcone.alignment", "lightcone.tau", "lightcone.width"}) {
    entry.info.switches.emplace_back(own);
  }
  // Chosen on validation images (research/notes/beyond-hbct.md): the pull to the old embeddings ends at half of the
  // steps, since an adapter leads back to them.
  entry.info.defaults = {{"hbct.lambda", "1"}, {"hbct.lambda_until", "0.5"}, {"hbct.normals", "auto"}};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    const MethodEntry inner = OnlyThroughAdapter(context.config) ? IndependentMethod() : HbctMethod();
    LC_ASSIGN_OR_RETURN(std::unique_ptr<TrainingMethod> made, inner.make(context));
    return std::make_unique<Lightcone>(context, std::move(made));
  };
  return entry;
}

}  // namespace lightcone
