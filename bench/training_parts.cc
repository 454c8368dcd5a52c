#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/rng.h"
#include "bench/training_parts_torch.h"
#include "trainer/train.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kImages = 4096;
constexpr int kClasses = 100;

// A model of `config`'s architecture, metric and dimension in `folder`. It is trained for two steps: its figures mean
// nothing, its files have everything that methods ask of an old model.
absl::Status WriteOldModel(TrainConfig config, const Dataset& dataset, const std::string& folder) {
  Dataset few = dataset;
  const int64_t n = 2 * dataset.classes();
  few.train.labels.resize(static_cast<size_t>(n));
  if (few.train.in_memory()) {
    few.train.pixels.resize(static_cast<size_t>(n * few.train.bytes_per_image()));
  } else {
    few.train.source_rows.resize(static_cast<size_t>(n));
  }
  config.name = "old";
  config.method = "independent";
  config.old_model.clear();
  config.clip_radius = 1.0;
  config.epochs = 1;
  config.batch = dataset.classes();
  return Train(few, config, folder).status();
}

}  // namespace

Dataset SyntheticPhotos() {
  Dataset dataset;
  dataset.name = "synthetic";
  dataset.augment = AugmentKind::kPhoto;
  dataset.normalisation = {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}};
  for (int c = 0; c < kClasses; ++c) dataset.class_names.push_back(StrCat("class", c));
  dataset.train.height = dataset.train.width = 32;
  dataset.train.channels = 3;
  dataset.train.pixels.resize(kImages * 32 * 32 * 3);
  Rng rng(1);
  for (uint8_t& pixel : dataset.train.pixels) pixel = static_cast<uint8_t>(rng.Below(256));
  for (int64_t i = 0; i < kImages; ++i) dataset.train.labels.push_back(static_cast<int32_t>(i % kClasses));
  return dataset;
}

absl::StatusOr<TrainConfig> ConfigOf(const Dataset& dataset, const std::string& folder, const std::string& method,
                                     const std::string& metric, const std::string& architecture, int64_t batch) {
  LC_ASSIGN_OR_RETURN(TrainConfig config, RecipeFor(dataset, "quick"));
  config.encoder.architecture = architecture;
  if (architecture != "small-cnn") config.encoder.width = 1;
  config.metric = metric;
  if (metric != "lorentz") config.hbct.normals = "drawn";
  config.batch = batch;
  const std::string old_model = folder + "/" + metric + "-" + architecture;
  if (!std::filesystem::exists(old_model)) LC_RETURN_IF_ERROR(WriteOldModel(config, dataset, old_model));
  config.method = method;
  if (FindTrainingMethod(method)->needs_old_model) config.old_model = old_model;
  if (method == "bt2") config.bt2.base_model = old_model;
  return ResolveConfig(dataset, config);
}

void UseChannelsLast(torch::nn::Module& module) {
  for (torch::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace lightcone::bench
