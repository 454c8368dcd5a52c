#include "bench/training_bench.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "bench/report.h"
#include "models/checkpoint_torch.h"
#include "trainer/data/loader.h"
#include "trainer/data/rng.h"
#include "trainer/run_torch.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kImages = 4096;
constexpr int kClasses = 100;

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

absl::Status WriteOldModel(const TrainConfig& config, const Dataset& dataset, const std::string& folder) {
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<EncoderNetwork> network, BuildNetwork(config.encoder, /*seed=*/9));
  Manifest manifest;
  manifest.name = "old";
  manifest.architecture = config.encoder.architecture;
  manifest.dimension = config.encoder.dimension;
  manifest.input = {32, 32, 3, dataset.normalisation.mean, dataset.normalisation.stddev};
  LC_ASSIGN_OR_RETURN(manifest.encoder_crc32c, ExportTorchScript(*network, folder + "/" + manifest.encoder_file));
  return WriteManifest(folder, manifest);
}

void UseChannelsLast(torch::nn::Module& module) {
  for (torch::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

// What somebody would write for the purpose in an afternoon.
class PlainLoop {
 public:
  static absl::StatusOr<std::unique_ptr<PlainLoop>> Create(const TrainConfig& config) {
    auto loop = std::unique_ptr<PlainLoop>(new PlainLoop);
    LC_ASSIGN_OR_RETURN(loop->network_, BuildNetwork(config.encoder, 1));
    LC_ASSIGN_OR_RETURN(loop->old_, BuildNetwork(config.encoder, 9));
    loop->head_ = torch::nn::Linear(config.encoder.dimension, kClasses);
    loop->old_->eval();
    UseChannelsLast(*loop->network_);
    UseChannelsLast(*loop->old_);
    std::vector<torch::Tensor> parameters = loop->network_->parameters();
    for (const torch::Tensor& p : loop->head_->parameters()) parameters.push_back(p);
    loop->optimizer_ = std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(5e-4));
    for (int i = 0; i < 8; ++i) {
      loop->images_.push_back(torch::randn({config.batch, 3, 32, 32}).contiguous(torch::MemoryFormat::ChannelsLast));
      loop->labels_.push_back(torch::randint(kClasses, {config.batch}, torch::kInt64));
    }
    return loop;
  }

  void Step() {
    const size_t i = next_++ % images_.size();
    const torch::Tensor z = network_->forward(images_[i]);
    {
      torch::NoGradGuard no_grad;
      old_->forward(images_[i]);
    }
    const torch::Tensor loss = torch::nn::functional::cross_entropy(head_->forward(z), labels_[i]);
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
  }

 private:
  PlainLoop() = default;

  std::shared_ptr<EncoderNetwork> network_, old_;
  torch::nn::Linear head_{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::vector<torch::Tensor> images_, labels_;
  size_t next_ = 0;
};

// Ours, as trainer/train.cc runs it.
class OurLoop {
 public:
  static absl::StatusOr<std::unique_ptr<OurLoop>> Create(const Dataset& dataset, const TrainConfig& config) {
    auto loop = std::unique_ptr<OurLoop>(new OurLoop);
    LC_ASSIGN_OR_RETURN(loop->run_, TrainingRun::Create(dataset, config));
    LoaderOptions options;
    options.batch_size = config.batch;
    options.epochs = 1'000'000;
    options.augment = dataset.augment;
    LC_ASSIGN_OR_RETURN(loop->loader_, BatchLoader::Create(&dataset.train, dataset.normalisation, options));
    return loop;
  }

  void Step() {
    if (loader_->Next(&batch_)) meter_.Add(run_->Step(batch_, 0.01));
  }

 private:
  OurLoop() = default;

  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<BatchLoader> loader_;
  Batch batch_;
  LossMeter meter_;
};

template <typename Loop>
double ImagesPerSecond(Loop& loop, int steps, int64_t batch) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) loop.Step();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return static_cast<double>(steps * batch) / seconds;
}

}  // namespace

absl::StatusOr<TrainingFigures> MeasureTraining(const std::string& folder, int rounds, int steps) {
  at::set_num_threads(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const Dataset dataset = SyntheticPhotos();
  LC_ASSIGN_OR_RETURN(TrainConfig config, RecipeFor(dataset, "quick"));
  config.batch = 128;
  config.method = "hbct";
  config.old_model = folder + "/old_model";
  LC_RETURN_IF_ERROR(WriteOldModel(config, dataset, config.old_model));
  LC_ASSIGN_OR_RETURN(config, ResolveConfig(dataset, config));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<OurLoop> ours, OurLoop::Create(dataset, config));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<PlainLoop> plain, PlainLoop::Create(config));
  ImagesPerSecond(*ours, 3, config.batch);  // first steps plan their convolutions
  ImagesPerSecond(*plain, 3, config.batch);
  std::vector<double> our_rates, plain_rates, ratios;
  for (int round = 0; round < rounds; ++round) {
    our_rates.push_back(ImagesPerSecond(*ours, steps, config.batch));
    plain_rates.push_back(ImagesPerSecond(*plain, steps, config.batch));
    ratios.push_back(our_rates.back() / plain_rates.back());
  }
  const double ratio = Median(ratios);
  return TrainingFigures{Median(our_rates), Median(plain_rates), ratio, Spread(ratios) / ratio, rounds};
}

}  // namespace lightcone::bench
