// AdvBCT (docs/internals/training-baselines.md): new embeddings stay within elastic balls around the old class
// centres, and a discriminator must not tell new embeddings from old ones.
#include <cmath>

#include "base/rng.h"
#include "trainer/losses/adversarial_torch.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr uint64_t kSeedStream = 0xadb;  // stream apart from those of weights, head, order and augmentation

// The discriminator and the elastic part of every class's boundary.
class AdvbctModule : public Discriminator {
 public:
  AdvbctModule(int64_t dimension, int64_t classes, bool elastic, torch::Generator generator)
      : Discriminator(dimension, generator) {
    const Tensor boundary = torch::empty({classes}).uniform_(-1.0, 1.0, generator);
    if (elastic) elastic_ = register_parameter("elastic", boundary);
  }

  const Tensor& elastic() const { return elastic_; }

 private:
  Tensor elastic_;  // elastic part, [classes]; undefined without one
};

class Advbct : public Baseline {
 public:
  using Baseline::Baseline;

  absl::Status Prepare() override {
    LC_RETURN_IF_ERROR(Baseline::Prepare());
    const TrainConfig& c = context_.config;
    LC_ASSIGN_OR_RETURN(const Tensor old, OldOfTrainingSet());
    balls_ = ClassBallsOf(UnitRows(old), TrainingLabels(), context_.dataset.classes());
    module_ = std::make_shared<AdvbctModule>(old.size(1), context_.dataset.classes(), c.advbct.elastic,
                                             at::detail::createCPUGenerator(MixSeed({c.seed, kSeedStream})));
    return absl::OkStatus();
  }

  std::shared_ptr<torch::nn::Module> module() override { return module_; }

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const Tensor& z) override {
    const AdvbctConfig& c = context_.config.advbct;
    MoveOnce(z.device(), {&balls_.centres, &balls_.radii});
    const double epochs = static_cast<double>(context_.config.epochs);
    const double epoch = std::floor(batch.progress * epochs + 1e-9);
    return {{"boundary", c.lambda, PointToSetLoss(z, batch.labels, balls_, module_->elastic())},
            {"adversarial", c.adversarial * (epochs - epoch) / epochs, Adversarial(batch, z)}};
  }

  Tensor Adversarial(const StepBatch& batch, const Tensor& z) const {
    const double alpha = 2.0 / (1.0 + std::exp(-10.0 * batch.progress)) - 1.0;
    return AdversarialLoss(*module_, z, OldOf(batch), alpha);
  }

  ClassBalls balls_;
  std::shared_ptr<AdvbctModule> module_;
};

}  // namespace

MethodEntry AdvbctMethod() {
  MethodEntry entry =
      BaselineEntry("advbct", "elastic balls around old class centres, and a discriminator of new against old",
                    "Pan et al., Boundary-Aware Backward-Compatible Representation via Adversarial Learning, CVPR 2023",
                    {"cached_old_features", "advbct.lambda", "advbct.adversarial", "advbct.elastic"});
  entry.info.revision = 1;  // embeddings are standardised before the discriminator
  entry.make = MakeBaseline<Advbct>;
  return entry;
}

}  // namespace lightcone
