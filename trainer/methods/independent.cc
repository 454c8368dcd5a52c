// The base loss alone, without compatibility: old models, and the baseline "*" of P_com and P_up.
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

class Independent : public TrainingMethod {
 public:
  explicit Independent(const MethodContext& context) : context_(context) {}

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const Embedded fresh = context_.classifier.Embed(z, context_.config.clip_radius);
    const torch::Tensor base = context_.classifier.Loss(fresh, batch.labels);
    return {base, {{"base", base.detach()}}};
  }

 private:
  const MethodContext context_;
};

}  // namespace

MethodEntry IndependentMethod() {
  MethodEntry entry;
  entry.info.name = "independent";
  entry.info.help = "base loss only: a model that knows of no other";
  entry.info.source = "Bdeir et al., Fully Hyperbolic CNNs (Lorentz MLR); else softmax, ArcFace, CosFace: base_loss";
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    return std::make_unique<Independent>(context);
  };
  return entry;
}

}  // namespace lightcone
