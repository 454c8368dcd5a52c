// One training in memory: network, head, optimiser, method, and their way into a checkpoint and back. Only .cc files of
// trainer/ and their tests include this.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/checkpoint.h"
#include "models/encoders/network_torch.h"
#include "trainer/data/loader.h"
#include "trainer/device_images_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {

// Sums of the losses over some steps, as tensors, so that no step waits for the device.
class LossMeter {
 public:
  void Add(const LossTerms& terms);
  void Clear();
  int64_t steps() const { return steps_; }
  // Means, "total" first. Empty when nothing was added.
  std::vector<std::pair<std::string, double>> Means() const;

 private:
  int64_t steps_ = 0;
  std::vector<std::pair<std::string, torch::Tensor>> sums_;
};

// The first step with a loss that is not finite, and the part of the loss. On the CPU it is known at once. On a device
// the result stays there until First is called, so that no step waits.
class LossWatch {
 public:
  struct Bad {
    std::string part;  // name of the part; "total" when all parts are finite
    int64_t step = 0;
  };
  void Add(const LossTerms& terms, int64_t step);
  std::optional<Bad> First() const;

 private:
  std::optional<Bad> first_;                                // first bad step on the CPU
  std::vector<std::pair<std::string, torch::Tensor>> bad_;  // first bad step by part on a device, "total" last
};

// Threads: one at a time.
class TrainingRun {
 public:
  // `config` must be resolved (ResolveConfig); `dataset` and `config` must outlive the run.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(const Dataset& dataset, const TrainConfig& config);

  // Lets the method set the head's start. Call it before the first step, not when a training resumes.
  absl::Status Start() { return method_->Start(*classifier_); }

  // One step of SGD on `batch` at the given learning rate; `progress` is StepBatch's. On the CPU the weights stay as
  // they are when the loss is not finite.
  LossTerms Step(Batch& batch, double learning_rate, double progress = 0);

  // Whether every weight that is trained is finite; waits for the device. INTERNAL names the first tensor
  // that is not.
  absl::Status CheckFinite() const;

  // Write and read the sections "network", "classifier", "optimizer" and, for a method with a module, "method": all
  // that later steps depend on. "classes" holds the names for models that are trained on this one.
  absl::Status Save(Checkpoint& checkpoint) const;
  absl::Status Load(const Checkpoint& checkpoint);

  const EncoderNetwork& network() const { return *network_; }
  double curvature() const { return classifier_->curvature(); }  // current K, which may be learnt
  const TrainingMethod& method() const { return *method_; }
  const OldModel* old_model() const { return old_model_.get(); }
  // Whether the images lie on the device. Batches may then come without images (LoaderOptions::draw_only).
  bool has_images() const { return device_images_.has_value(); }

 private:
  TrainingRun(const Dataset& dataset, const TrainConfig& config) : dataset_(dataset), config_(config) {}
  void MakeOptimizer();
  void ClipGradients();
  absl::StatusOr<torch::Tensor> EmbedTrain();
  torch::Tensor InputOf(Batch& batch) const;

  const Dataset& dataset_;
  const TrainConfig& config_;
  torch::Device device_ = torch::kCPU;
  std::optional<DeviceImages> device_images_;
  std::shared_ptr<EncoderNetwork> network_;
  std::shared_ptr<Classifier> classifier_;
  std::unique_ptr<OldModel> old_model_;
  std::unique_ptr<TrainingMethod> method_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::vector<double> rate_factors_;  // factor of each parameter group on the learning rate
};

// Sets what depends on the data set and the old model (input sizes, clip radius 0), and checks everything.
absl::StatusOr<TrainConfig> ResolveConfig(const Dataset& dataset, const TrainConfig& config);

}  // namespace lightcone
