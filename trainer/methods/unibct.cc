// UniBCT (docs/internals/training-baselines.md): classification by prototypes of old features, which the training
// refines along the new model's similarities.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "trainer/losses/classwise_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// The state that checkpoints keep.
class UnibctState : public torch::nn::Module {
 public:
  explicit UnibctState(const Tensor& start) {
    prototypes = register_buffer("prototypes", start.clone());
    refined = register_buffer("refined", torch::zeros({1}, torch::kInt64));
  }
  Tensor prototypes;  // prototypes, [classes, d]
  Tensor refined;     // number of refinements done, [1]
};

class Unibct : public Baseline {
 public:
  using Baseline::Baseline;

  absl::Status Prepare() override {
    LC_RETURN_IF_ERROR(Baseline::Prepare());
    LC_ASSIGN_OR_RETURN(const Tensor old, OldOfTrainingSet());
    old_ = UnitRows(old);
    labels_ = TrainingLabels();
    state_ = std::make_shared<UnibctState>(ClassMeansOf(old_, labels_, context_.dataset.classes()));
    return absl::OkStatus();
  }

  std::shared_ptr<torch::nn::Module> module() override { return state_; }

 private:
  bool reads_old_batches() const override { return false; }

  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const Tensor& z) override {
    const UnibctConfig& c = context_.config.unibct;
    Refine(batch.progress);
    const bool waits = c.wait && c.refinements > 0 && refined_ == 0;
    const Tensor loss = PrototypeLoss(z, state_->prototypes, batch.labels, c.scale).mean();
    return {{"prototypes", waits ? 0.0 : c.lambda, loss}};
  }

  // The i-th of r refinements is due after i/(r + 1) of the steps.
  void Refine(double progress) {
    const UnibctConfig& c = context_.config.unibct;
    const int64_t passed = static_cast<int64_t>(std::floor(progress * static_cast<double>(c.refinements + 1) + 1e-9));
    const int64_t due = std::min(c.refinements, passed);
    // Reads the buffer at the first step, after a checkpoint may have been loaded: later steps do not wait for a
    // device.
    if (refined_ < 0) refined_ = state_->refined.item<int64_t>();
    if (refined_ >= due) return;
    const absl::StatusOr<Tensor> fresh = context_.embed_train();
    if (!fresh.ok()) throw std::runtime_error("unibct: refinement: " + MessageOf(fresh.status()));
    torch::NoGradGuard no_grad;
    state_->prototypes.copy_(
        RefinedPrototypes(UnitRows(*fresh), old_, labels_, context_.dataset.classes(), {c.damping, c.tau}));
    refined_ = due;
    state_->refined.fill_(due);
  }

  Tensor old_, labels_;  // old unit rows and labels of the training images
  std::shared_ptr<UnibctState> state_;
  int64_t refined_ = -1;  // copy of state_->refined; -1 before the first step
};

}  // namespace

MethodEntry UnibctMethod() {
  MethodEntry entry = BaselineEntry(
      "unibct", "classification by old class prototypes that are refined on a graph",
      "Zhang et al., Towards Universal Backward-Compatible Representation Learning, IJCAI 2022",
      {"unibct.lambda", "unibct.scale", "unibct.damping", "unibct.tau", "unibct.refinements", "unibct.wait"});
  entry.make = MakeBaseline<Unibct>;
  return entry;
}

}  // namespace lightcone
