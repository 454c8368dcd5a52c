// HypMix (docs/internals/training-baselines.md, hypmix): two images of a class are two views, each of which finds the
// other in the batch by cosine and hyperbolic distance. It needs no old model and no head.
#include <vector>

#include "base/status.h"
#include "trainer/losses/hypmix_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

HypMixOptions OptionsOf(const HypmixConfig& config) {
  HypMixOptions options{HypMixGeometry::kMixed, config.tau_e, config.tau_h, config.lambda, config.curvature};
  if (config.geometry == "spherical") options.geometry = HypMixGeometry::kSpherical;
  if (config.geometry == "hyperbolic") options.geometry = HypMixGeometry::kHyperbolic;
  return options;
}

class Hypmix : public TrainingMethod {
 public:
  explicit Hypmix(const MethodContext& context) : context_(context), options_(OptionsOf(context.config.hypmix)) {}

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const torch::Tensor rows = batch.rows;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < rows.size(0); ++i) {
      labels.push_back(context_.dataset.train.labels[static_cast<size_t>(rows.data_ptr<int64_t>()[i])]);
    }
    const ViewPairs pairs = PairsOfOneClass(labels);
    const auto of = [&](const torch::Tensor& x, const std::vector<int64_t>& positions) {
      return x.index_select(0, torch::tensor(positions, torch::kInt64).to(x.device(), /*non_blocking=*/true));
    };
    const torch::Tensor loss =
        HypMixLoss(of(z, pairs.first), of(z, pairs.second), options_, of(batch.labels, pairs.first));
    return {loss, {{"contrast", loss.detach()}}};
  }

 private:
  const MethodContext context_;
  const HypMixOptions options_;
};

}  // namespace

MethodEntry HypmixMethod() {
  MethodEntry entry;
  entry.info.name = "hypmix";
  entry.info.help =
      "metric learning without a head: two images of a class find each other by cosine and hyperbolic distance";
  entry.info.source =
      "HypMix, eq. 10 as released (a temperature for each geometry); Ermolov et al. for the hyperbolic part";
  entry.info.metric = "cosine";
  entry.info.base_loss = "none";
  entry.info.same_class = 2;
  entry.info.switches = {"hypmix.geometry", "hypmix.tau_e", "hypmix.tau_h", "hypmix.lambda", "hypmix.curvature"};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    return std::make_unique<Hypmix>(context);
  };
  return entry;
}

}  // namespace lightcone
