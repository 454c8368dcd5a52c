// What the Euclidean baselines share: the base loss, old embeddings, and the sum. Only .cc files of trainer/methods/
// include this.
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
  torch::Tensor loss;  // scalar
};

// L = base_weight L_base + sum of weighted compatibility losses. Threads: one at a time.
class Baseline : public TrainingMethod {
 public:
  explicit Baseline(const MethodContext& context) : context_(context) {}

  // Called once before anything else: reads or computes what the losses need. An override calls this one first.
  virtual absl::Status Prepare();

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) final;

 protected:
  // The same losses in the same order at every step.
  virtual std::vector<WeightedLoss> Compatibility(const StepBatch& batch, const torch::Tensor& z) = 0;
  virtual double base_weight() const { return 1; }
  virtual bool reads_old_batches() const { return true; }  // whether OldOf is ever called

  // Old embeddings of the batch as the old model gave them (not unit vectors), [n, d], without gradient.
  torch::Tensor OldOf(const StepBatch& batch) const;
  // The same of every training image, unaugmented, [images, d].
  absl::StatusOr<torch::Tensor> OldOfTrainingSet() const;
  torch::Tensor TrainingLabels() const;  // int64 [images]

  const MethodContext context_;

 private:
  torch::Tensor cached_;  // [images, d], undefined unless old features are cached
};

// MethodEntry::make for a Baseline.
template <typename Method>
absl::StatusOr<std::unique_ptr<TrainingMethod>> MakeBaseline(const MethodContext& context) {
  auto method = std::make_unique<Method>(context);
  LC_RETURN_IF_ERROR(method->Prepare());
  return std::unique_ptr<TrainingMethod>(std::move(method));
}

// An entry with what all of them have in common: an old model (also first of its switches) and metric cosine.
MethodEntry BaselineEntry(const char* name, const char* help, const char* source, std::vector<std::string> switches);

}  // namespace lightcone
