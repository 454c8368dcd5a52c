// Hot-Refresh (docs/internals/training-baselines.md): contrast with old and new embeddings of other classes.
#include "trainer/losses/pairwise_torch.h"
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

class HotRefresh : public Baseline {
 public:
  using Baseline::Baseline;

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) override {
    const ContraConfig& c = context_.config.hot_refresh;
    return {{"contrast", c.lambda, ContraLoss(z, OldOf(batch), batch.labels, {c.tau, c.negatives, true}).mean()}};
  }
};

}  // namespace

MethodEntry HotRefreshMethod() {
  MethodEntry entry = BaselineEntry(
      "hot-refresh", "regression-alleviating contrast: old and new embeddings of other classes repel",
      "Zhang et al., Hot-Refresh Model Upgrades with Regression-Alleviating Compatible Training, ICLR 2022",
      {"cached_old_features", "hot_refresh.lambda", "hot_refresh.tau", "hot_refresh.negatives"});
  entry.make = MakeBaseline<HotRefresh>;
  return entry;
}

}  // namespace lightcone
