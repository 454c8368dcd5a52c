// The common part of the Euclidean baselines: the base loss, old embeddings, and the sum. Only .cc files of
// trainer/methods/ include this.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {

struct WeightedLoss {
  const char* name;
  double weight;
  torch::Tensor loss;  // loss, a scalar
};

// L = base_weight L_base + sum of weighted compatibility losses. Threads: one at a time.
class Baseline : public TrainingMethod {
 public:
  explicit Baseline(const MethodContext& context) : context_(context) {}

  // Reads or computes the losses' inputs. Called once before everything else. An override calls this one first.
  virtual absl::Status Prepare();

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) final;

 protected:
  // The same losses in the same order at every step.
  virtual std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) = 0;
  virtual double base_weight() const { return 1; }
  virtual bool reads_old_batches() const { return true; }  // whether the method calls OldOf

  // Old embeddings of the batch, [n, d], not unit vectors, without gradient.
  torch::Tensor OldOf(const StepBatch& batch) const;
  // Old embeddings of every training image, unaugmented, [images, d].
  absl::StatusOr<torch::Tensor> OldOfTrainingSet() const;
  torch::Tensor TrainingLabels() const { return LabelTensor(context_.dataset.train); }

  const MethodContext context_;

 private:
  torch::Tensor cached_;  // cached old features, [images, d]; else undefined
};

// MethodEntry::make for a Baseline.
template <typename Method>
absl::StatusOr<std::unique_ptr<TrainingMethod>> MakeBaseline(const MethodContext& context) {
  auto method = std::make_unique<Method>(context);
  LC_RETURN_IF_ERROR(method->Prepare());
  return method;
}

// An entry with the common part of the baselines: an old model, also as the first switch, and metric cosine.
MethodEntry BaselineEntry(const char* name, const char* help, const char* source, std::vector<std::string> switches);

}  // namespace lightcone
