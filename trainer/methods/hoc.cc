// HOC (docs/internals/training-baselines.md): higher-order compatibility, contrast with old embeddings as anchors.
#include "trainer/losses/pairwise_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

class Hoc : public Baseline {
 public:
  using Baseline::Baseline;

 private:
  double base_weight() const override { return context_.config.hoc.base_weight; }

  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) override {
    const HocConfig& c = context_.config.hoc;
    return {{"hoc", c.lambda, HocLoss(z, OldOf(batch), batch.labels, c.mu, c.same_class == "zeroed").mean()}};
  }
};

}  // namespace

MethodEntry HocMethod() {
  MethodEntry entry =
      BaselineEntry("hoc", "old embeddings tell their own image's new embedding from other classes'",
                    "Biondi et al., Stationary Representations, CVPR 2024, and their code iamcl2r",
                    {"cached_old_features", "hoc.lambda", "hoc.base_weight", "hoc.mu", "hoc.same_class"});
  entry.make = MakeBaseline<Hoc>;
  return entry;
}

}  // namespace lightcone
