// l2 (docs/internals/training-baselines.md): each new embedding is pulled to the old one of its image.
#include "trainer/losses/pairwise_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

class L2 : public Baseline {
 public:
  using Baseline::Baseline;

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) override {
    const L2Config& c = context_.config.l2;
    const torch::Tensor old = OldOf(batch);
    return {{"l2", c.lambda, c.form == "mse" ? L2MseLoss(z, old) : L2NormLoss(z, old)}};
  }
};

}  // namespace

MethodEntry L2Method() {
  MethodEntry entry = BaselineEntry("l2", "pulls unit embeddings onto the old ones of the same images",
                                    "MixBCT's baseline (norm); Zhang et al., Hot-Refresh, OpenCompatible (mse)",
                                    {"cached_old_features", "l2.lambda", "l2.form"});
  entry.make = MakeBaseline<L2>;
  return entry;
}

}  // namespace lightcone
