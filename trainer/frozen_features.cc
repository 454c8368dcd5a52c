#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/data/loader.h"
#include "trainer/frozen_features_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr uint64_t kOnceStream = 0x0ce;  // stream apart from those of weights, order and augmentation
constexpr int64_t kBlockImages = 256;

// One augmented view of every image, in the order of the set, through the model.
absl::StatusOr<Tensor> EmbedAugmentedOnce(const OldModel& model, const Dataset& dataset, const TrainConfig& config) {
  LoaderOptions options;
  options.batch_size = std::min(kBlockImages, dataset.train.size());
  options.seed = MixSeed({config.seed, kOnceStream});
  options.augment = AugmentOf(config, dataset);
  options.shuffle = options.drop_last = false;
  options.workers = static_cast<int>(std::min<int64_t>(config.loader_threads, 64));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<BatchLoader> loader,
                      BatchLoader::Create(&dataset.train, dataset.normalisation, options));
  const ImageSet& set = dataset.train;
  std::vector<Tensor> blocks;
  Batch batch;
  while (loader->Next(&batch)) {
    const Tensor images = torch::from_blob(batch.images.data(), {batch.size(), set.channels, set.height, set.width});
    blocks.push_back(UnitRows(model.Embed(images)).cpu());
  }
  LC_RETURN_IF_ERROR(loader->status());
  return torch::cat(blocks, 0);
}

}  // namespace

absl::StatusOr<FrozenFeatures> FrozenFeatures::Create(const OldModel& model, const Dataset& dataset,
                                                      const TrainConfig& config, std::string_view form) {
  torch::NoGradGuard no_grad;
  if (form == "augmented-once") {
    LC_ASSIGN_OR_RETURN(Tensor all, EmbedAugmentedOnce(model, dataset, config));
    return FrozenFeatures(model, std::move(all), /*each_batch=*/false);
  }
  if (form != "plain" && form != "batch") return InvalidField("old_features", form, "augmented-once, plain or batch");
  LC_ASSIGN_OR_RETURN(const Tensor plain, model.EmbedAll(dataset.train));
  return FrozenFeatures(model, UnitRows(plain), form == "batch");
}

Tensor FrozenFeatures::Of(const Tensor& images, const Tensor& rows) const {
  torch::NoGradGuard no_grad;
  if (each_batch_) return UnitRows(model_->Embed(images));
  return all_.index_select(0, rows).to(images.device(), /*non_blocking=*/true);
}

}  // namespace lightcone
