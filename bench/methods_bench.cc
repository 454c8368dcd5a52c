// A step of each method beside its parts; evaluation; exported encoders.
#include <unistd.h>

#include <cstdio>

#include "base/cores.h"
#include "base/rng.h"
#include "bench/training_bench.h"
#include "bench/training_parts_torch.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/encoder.h"
#include "trainer/evaluate.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kBatch = 64;
constexpr int kPrepared = 4;  // batches

absl::StatusOr<std::vector<Batch>> PreparedBatches(const Dataset& dataset, int64_t same_class) {
  LoaderOptions options;
  options.batch_size = kBatch;
  options.augment = dataset.augment;
  options.same_class = same_class;
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<BatchLoader> loader,
                      BatchLoader::Create(&dataset.train, dataset.normalisation, options));
  std::vector<Batch> batches(kPrepared);
  for (Batch& batch : batches) {
    if (!loader->Next(&batch)) return Internal("the loader ended");
  }
  return batches;
}

// Steps of one training on batches that were prepared before.
class Stepper {
 public:
  static absl::StatusOr<std::unique_ptr<Stepper>> Create(const Dataset& dataset, TrainConfig config) {
    auto stepper = std::unique_ptr<Stepper>(new Stepper(std::move(config)));
    LC_ASSIGN_OR_RETURN(stepper->run_, TrainingRun::Create(dataset, stepper->config_));
    LC_RETURN_IF_ERROR(stepper->run_->Start());
    LC_ASSIGN_OR_RETURN(stepper->batches_,
                        PreparedBatches(dataset, FindTrainingMethod(stepper->config_.method)->same_class));
    return stepper;
  }
  void Step() { run_->Step(Next(), 0.01); }
  void FrozenForward() {
    Batch& batch = Next();
    torch::Tensor images = torch::from_blob(batch.images.data(), {kBatch, 3, 32, 32});
    if (config_.channels_last) images = InChannelsLast(images);
    run_->old_model()->Embed(images);
  }

 private:
  explicit Stepper(TrainConfig config) : config_(std::move(config)) {}
  Batch& Next() { return batches_[next_++ % batches_.size()]; }

  const TrainConfig config_;
  std::unique_ptr<TrainingRun> run_;
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

// Methods that ask the old model at every step. The others know what they need of it before the first one.
bool AsksOldModel(const std::string& method) {
  for (const char* asks : {"hbct", "l2", "nccl", "hot-refresh", "contra", "advbct", "hoc", "lightcone"}) {
    if (method == asks) return true;
  }
  return false;
}

absl::StatusOr<MethodStep> MeasureMethod(const Dataset& dataset, const std::string& folder, const MethodInfo& info,
                                         int rounds, int steps) {
  const std::string metric = info.metric.empty() ? "lorentz" : info.metric;
  MethodStep measured;
  measured.method = info.name;
  measured.frozen_forwards = AsksOldModel(info.name) ? 1 : 0;
  const auto stepper = [&](const std::string& method) -> absl::StatusOr<std::unique_ptr<Stepper>> {
    LC_ASSIGN_OR_RETURN(TrainConfig config, ConfigOf(dataset, folder, method, metric, "small-cnn", kBatch));
    return Stepper::Create(dataset, std::move(config));
  };
  absl::StatusOr<std::unique_ptr<Stepper>> own = stepper(info.name);
  if (!own.ok()) return Annotate(own.status(), info.name);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Stepper> alone, stepper("independent"));
  const auto parts = [&] {
    alone->Step();
    for (int i = 0; i < measured.frozen_forwards; ++i) (*own)->FrozenForward();
  };
  SecondsOf(3, [&] { (*own)->Step(); });  // first steps plan their convolutions
  SecondsOf(3, parts);
  Rounds times;
  for (int round = 0; round < rounds; ++round) {
    const auto [step, sum] = SecondsByTurns(
        steps, [&] { (*own)->Step(); }, parts);
    times.Add(1e3 * step, 1e3 * sum);
  }
  measured.milliseconds = times.Result();
  return measured;
}

// Lets the kernel count the process's peak of memory anew.
absl::Status ResetPeak() {
  std::FILE* file = std::fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return Internal("/proc/self/clear_refs cannot be written");
  const bool written = std::fputs("5", file) >= 0;
  return std::fclose(file) == 0 && written ? absl::OkStatus() : Internal("/proc/self/clear_refs refused \"5\"");
}

}  // namespace

absl::StatusOr<std::vector<MethodStep>> MeasureMethods(const std::string& folder, int rounds, int steps) {
  const TensorThreads threads(AvailableCores(), "small-cnn");
  const Dataset dataset = SyntheticPhotos();
  std::vector<MethodStep> all;
  for (const MethodInfo& info : TrainingMethods()) {
    if (info.name == "independent") continue;
    LC_ASSIGN_OR_RETURN(MethodStep measured, MeasureMethod(dataset, folder, info, rounds, steps));
    all.push_back(std::move(measured));
  }
  return all;
}

absl::StatusOr<EvaluationFigures> MeasureEvaluation() {
  const TensorThreads threads(AvailableCores(), "small-cnn");
  constexpr int64_t kItems = 10'000, kDimension = 128;
  Rng rng(5);
  std::vector<float> z(kItems * kDimension);
  for (float& value : z) value = 0.15f * (static_cast<float>(rng.Below(20001)) / 10000 - 1);
  std::vector<int32_t> labels(kItems);
  for (int64_t i = 0; i < kItems; ++i) labels[static_cast<size_t>(i)] = static_cast<int32_t>(i % 100);
  const LabelledEmbeddings side{z, labels, 1.0};
  EvaluationFigures figures;
  LC_RETURN_IF_ERROR(ResetPeak());
  LC_ASSIGN_OR_RETURN(const int64_t before, MemoryOf(getpid(), "VmRSS"));
  absl::Status status;
  figures.seconds = SecondsOf(1, [&] {
    status = EvaluateRetrieval({"lorentz", 1.0, kDimension}, side, side, /*same_items=*/true).status();
  });
  LC_RETURN_IF_ERROR(status);
  LC_ASSIGN_OR_RETURN(const int64_t peak, MemoryOf(getpid(), "VmHWM"));
  figures.peak_bytes = peak - before;
  return figures;
}

absl::StatusOr<Compared> MeasureExport(const std::string& folder, const std::string& architecture, int rounds,
                                       int batches) {
  const TensorThreads threads(AvailableCores(), architecture);
  constexpr int64_t kImages = 128;
  const Dataset dataset = SyntheticPhotos();
  LC_ASSIGN_OR_RETURN(const TrainConfig config,
                      ConfigOf(dataset, folder, "independent", "lorentz", architecture, kImages));
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<EncoderNetwork> network, BuildNetwork(config.encoder, 3));
  network->eval();
  UseChannelsLast(*network);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder,
                      Encoder::LoadFolder(folder + "/lorentz-" + architecture, {.batch_max = kImages}));
  const torch::Tensor images = torch::randn({kImages, 3, 32, 32});
  const std::span<const float> values(images.data_ptr<float>(), static_cast<size_t>(images.numel()));
  absl::Status status;
  const auto exported = [&] { status.Update(encoder->EmbedTensors(values, kImages).status()); };
  const auto plain = [&] {
    torch::NoGradGuard no_grad;
    network->forward(images.contiguous(torch::MemoryFormat::ChannelsLast));
  };
  SecondsOf(3, exported);
  SecondsOf(3, plain);
  Rounds rates;
  for (int round = 0; round < rounds; ++round) {
    const auto [ours, peer] = SecondsByTurns(batches, exported, plain);
    rates.Add(kImages / ours, kImages / peer);
  }
  LC_RETURN_IF_ERROR(status);
  return rates.Result();
}

}  // namespace lightcone::bench
