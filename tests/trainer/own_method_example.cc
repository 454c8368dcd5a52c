// The example of docs/internals/HACKING.md (Add a training method), word for word.
#include "trainer/methods/baseline_torch.h"

namespace lightcone {
namespace {

constexpr OwnOption kWeight{"pull.lambda", 1, 0, 1000, "weight of the pull"};

class Pull : public Baseline {
 public:
  using Baseline::Baseline;

 private:
  std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) override {
    const torch::Tensor cosines = torch::cosine_similarity(z, OldOf(batch));
    return {{"pull", kWeight.Of(context_.config), (1 - cosines).mean()}};
  }
};

}  // namespace

MethodEntry PullMethod() {
  MethodEntry entry = BaselineEntry("pull", "turns embeddings towards the old ones of the same images",
                                    "an example of docs/internals/HACKING.md", {"cached_old_features"});
  entry.info.options = {kWeight};
  entry.make = MakeBaseline<Pull>;
  return entry;
}

}  // namespace lightcone
