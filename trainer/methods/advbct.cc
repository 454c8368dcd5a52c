// AdvBCT (docs/training.md, Euclidean baselines): new embeddings stay within elastic balls around the old class
// centres, and a discriminator must not tell new ones from old ones.
#include <cmath>

#include "trainer/data/rng.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr uint64_t kSeedStream = 0xadb;  // apart from the streams of weights, head, order and augmentation
constexpr int64_t kHidden = 100;

// Each number of the embeddings with mean 0 and variance 1 over the batch. The release's embeddings leave a batch norm;
// ours do not, and the length of raw ones runs away under the reversed gradient (docs/training.md).
Tensor Standardised(const Tensor& rows) {
  return torch::batch_norm(rows, /*weight=*/{}, /*bias=*/{}, /*running_mean=*/{}, /*running_var=*/{},
                           /*training=*/true, /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
}

// d -> 100 -> batch norm -> relu -> 2, and the elastic part of every class's boundary.
class AdvbctModule : public torch::nn::Module {
 public:
  AdvbctModule(int64_t dimension, int64_t classes, bool elastic, uint64_t seed) {
    torch::Generator generator = at::detail::createCPUGenerator(seed);
    const auto drawn = [&](torch::IntArrayRef shape, double bound) {
      return torch::empty(shape).uniform_(-bound, bound, generator);
    };
    const double in = 1.0 / std::sqrt(static_cast<double>(dimension)), hidden = 1.0 / std::sqrt(double{kHidden});
    weight1_ = register_parameter("weight1", drawn({kHidden, dimension}, in));
    bias1_ = register_parameter("bias1", drawn({kHidden}, in));
    scale_ = register_parameter("scale", torch::ones({kHidden}));
    shift_ = register_parameter("shift", torch::zeros({kHidden}));
    weight2_ = register_parameter("weight2", drawn({2, kHidden}, hidden));
    bias2_ = register_parameter("bias2", drawn({2}, hidden));
    const Tensor boundary = drawn({classes}, 1.0);
    if (elastic) elastic_ = register_parameter("elastic", boundary);
  }

  // Logits of "new" and "old", [n, 2]. The norm is over the rows given; the discriminator is never used alone.
  Tensor Discriminate(const Tensor& z) const {
    const Tensor hidden = torch::addmm(bias1_, z, weight1_.t());
    const Tensor normal = torch::batch_norm(hidden, scale_, shift_, /*running_mean=*/{}, /*running_var=*/{},
                                            /*training=*/true, /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
    return torch::addmm(bias2_, torch::relu(normal), weight2_.t());
  }

  const Tensor& elastic() const { return elastic_; }

 private:
  Tensor weight1_, bias1_, scale_, shift_, weight2_, bias2_;
  Tensor elastic_;  // [classes]; undefined without
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
                                             MixSeed({c.seed, kSeedStream}));
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
    const Tensor logits = module_->Discriminate(
        torch::cat({ReverseGradient(Standardised(z), alpha), Standardised(OldOf(batch))}, 0));
    const Tensor log_p = torch::log_softmax(logits, 1);
    const int64_t n = z.size(0);
    return -(log_p.narrow(0, 0, n).select(1, 0).mean() + log_p.narrow(0, n, n).select(1, 1).mean());
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
  entry.info.revision = 1;  // both kinds of embeddings are standardised before the discriminator
  entry.make = MakeBaseline<Advbct>;
  return entry;
}

}  // namespace lightcone
