// Contrast of new embeddings with old ones alone (docs/internals/training-baselines.md): the base of Hot-Refresh.
#include "trainer/losses/pairwise_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

class Contra : public Baseline {
 public:
  using Baseline::Baseline;

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) override {
    const ContraConfig& c = context_.config.contra;
    return {{"contrast", c.lambda, ContraLoss(z, OldOf(batch), batch.labels, {c.tau, c.negatives, false}).mean()}};
  }
};

}  // namespace

MethodEntry ContraMethod() {
  MethodEntry entry = BaselineEntry("contra", "contrast of new embeddings with the old ones of other classes",
                                    "Zhang et al., Hot-Refresh Model Upgrades, ICLR 2022, without its new-new part",
                                    {"cached_old_features", "contra.lambda", "contra.tau", "contra.negatives"});
  entry.make = MakeBaseline<Contra>;
  return entry;
}

}  // namespace lightcone
