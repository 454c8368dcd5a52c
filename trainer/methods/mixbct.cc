// MixBCT (docs/internals/training-baselines.md, mixbct): the base loss on batches in which old embeddings of the same
// images replace some rows, so that one head classifies both.
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/frozen_features_torch.h"
#include "trainer/losses/mix_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

constexpr uint64_t kMixStream = 0x313;

class Mixbct : public TrainingMethod {
 public:
  Mixbct(const MethodContext& context, FrozenFeatures old)
      : context_(context), old_(std::move(old)), keep_(static_cast<size_t>(context.dataset.train.size()), true) {
    const MixbctConfig& c = context.config.mixbct;
    if (!c.denoise) return;
    const torch::Tensor keep = DenoiseRows(old_.all(), LabelTensor(context.dataset.train), c.kept_share).keep;
    for (size_t i = 0; i < keep_.size(); ++i) keep_[i] = keep.data_ptr<bool>()[i];
  }

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const std::vector<int64_t> replaced = Replaced(batch);
    torch::Tensor mixed = z;
    if (!replaced.empty()) mixed = MixRows(z, old_.Of(batch.images, batch.rows), replaced);
    const Embedded embedded = context_.classifier.Embed(mixed, context_.config.clip_radius);
    const torch::Tensor base = context_.classifier.Loss(embedded, batch.labels);
    return {base, {{"base", base.detach()}}};
  }

 private:
  // A function of the seed and the step, so that a resumed training draws the same rows.
  std::vector<int64_t> Replaced(const StepBatch& batch) const {
    const torch::Tensor rows = batch.rows;
    std::vector<bool> keep;
    for (int64_t i = 0; i < rows.size(0); ++i) keep.push_back(keep_[static_cast<size_t>(rows.data_ptr<int64_t>()[i])]);
    const uint64_t step = std::bit_cast<uint64_t>(batch.progress);
    return DrawReplaced(keep, context_.config.mixbct.alpha, Rng(MixSeed({context_.config.seed, kMixStream, step})));
  }

  const MethodContext context_;
  const FrozenFeatures old_;
  std::vector<bool> keep_;  // whether each training image's old embedding may be mixed in
};

}  // namespace

MethodEntry MixbctMethod() {
  MethodEntry entry;
  entry.info.name = "mixbct";
  entry.info.help = "one head classifies batches in which trustworthy old embeddings replace some of the new ones";
  entry.info.source = "MixBCT, section 3: denoising and mixing; Deng et al. for ArcFace";
  entry.info.needs_old_model = true;
  entry.info.metric = "cosine";
  entry.info.base_loss = "arcface";
  entry.info.switches = {"old_model", "mixbct.alpha", "mixbct.denoise", "mixbct.kept_share", "mixbct.old_features"};
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    const TrainConfig& c = context.config;
    if (c.base_loss != "auto" && c.base_loss != "arcface" && c.base_loss != "cosface") {
      // Old rows have norm 1, new ones any: only a head that normalises sees both alike.
      return InvalidField("base_loss", c.base_loss, "auto, arcface or cosface (method 'mixbct' needs a cosine head)");
    }
    LC_ASSIGN_OR_RETURN(FrozenFeatures old,
                        FrozenFeatures::Create(*context.old_model, context.dataset, c, c.mixbct.old_features));
    return std::make_unique<Mixbct>(context, std::move(old));
  };
  return entry;
}

}  // namespace lightcone
