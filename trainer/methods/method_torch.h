// The interface between the training loop and a method. A method is one .cc file and one line below. Only .cc files of
// trainer/ and their tests include this.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/encoders/checkpoint_torch.h"
#include "trainer/config.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/methods/method.h"
#include "trainer/old_model_torch.h"

namespace lightcone {

struct StepBatch {
  torch::Tensor images;  // augmented and normalised images, [n, c, h, w] float32
  torch::Tensor labels;  // classes, [n] int64
  torch::Tensor rows;    // positions in the training set, [n] int64 on the CPU
  double progress = 0;   // share of the training's steps that are done, in [0, 1)
};

struct LossTerms {
  torch::Tensor total;                                       // loss with a gradient, a scalar
  std::vector<std::pair<const char*, torch::Tensor>> parts;  // detached scalars for the progress line
};

// The inputs of a method, all of which outlive the method.
struct MethodContext {
  const TrainConfig& config;  // resolved configuration, with input sizes and clip radius
  const Dataset& dataset;
  const Classifier& classifier;         // head, which the loop trains together with the network
  const OldModel* old_model = nullptr;  // old model, for MethodInfo::needs_old_model
  // z of every training image by the current network, in eval mode and without gradient: [n, VectorLayout::network] on
  // the CPU. Images are unaugmented, in the order of the set. Cost: a forward pass over the set.
  std::function<absl::StatusOr<torch::Tensor>()> embed_train = {};
};

// Threads: one at a time.
class TrainingMethod {
 public:
  virtual ~TrainingMethod() = default;
  // `z` [n, d]: the network's output for batch.images, before the clip.
  virtual LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) = 0;
  // May set the head's start. Called once before a training's first step, not when a training resumes.
  virtual absl::Status Start(Classifier& classifier) { return absl::OkStatus(); }
  // The method's own parameters and buffers (a discriminator, a transformation), or nullptr; the same module for the
  // method's whole life. The loop trains the parameters like the network's. Checkpoints hold the module in section
  // "method".
  virtual std::shared_ptr<torch::nn::Module> module() { return nullptr; }
  // The map that an exported encoder applies to the network's output, from VectorLayout::network to ::embedding
  // numbers, with the current weights (models/encoders/checkpoint_torch.h); empty: no map.
  virtual OutputTransform ExportedTransform() const { return {}; }
  // CRC-32C over the models that the steps depend on besides the old one; 0 without others. A checkpoint made with
  // other models is refused.
  virtual uint32_t OtherModelsCrc32c() const { return 0; }
};

// Moves tensors that a method made on the CPU to the device of its steps, at the first step. Undefined tensors stay so.
// The loop moves the tensors of module().
inline void MoveOnce(torch::Device device, std::initializer_list<torch::Tensor*> tensors) {
  for (torch::Tensor* tensor : tensors) {
    if (tensor->defined() && tensor->device() != device) *tensor = tensor->to(device);
  }
}

// The class ids of a set's images, int64 [n] on the CPU.
inline torch::Tensor LabelTensor(const ImageSet& set) {
  return torch::tensor(std::vector<int64_t>(set.labels.begin(), set.labels.end()), torch::kInt64);
}

struct MethodEntry {
  MethodInfo info;
  std::function<absl::StatusOr<std::unique_ptr<TrainingMethod>>(const MethodContext&)> make;
  // Set by methods whose vectors are longer than the old model's (bct+32, bt2); empty: VectorLayout{d, d, d, d}.
  std::function<VectorLayout(const TrainConfig&)> layout = {};
};

// Every method's entry, defined in a file of its own, in the order of `lightcone train --list`. A new method needs its
// file and a line here.
#define LC_TRAINING_METHODS(METHOD) \
  METHOD(IndependentMethod)         \
  METHOD(HbctMethod)                \
  METHOD(MixbctMethod)              \
  METHOD(Bt2Method)                 \
  METHOD(HypmixMethod)              \
  METHOD(L2Method)                  \
  METHOD(BctMethod)                 \
  METHOD(Bct32Method)               \
  METHOD(UnibctMethod)              \
  METHOD(NcclMethod)                \
  METHOD(HotRefreshMethod)          \
  METHOD(ContraMethod)              \
  METHOD(AdvbctMethod)              \
  METHOD(HocMethod)                 \
  METHOD(LightconeMethod)
#define LC_DECLARE_METHOD(name) MethodEntry name();
LC_TRAINING_METHODS(LC_DECLARE_METHOD)
#undef LC_DECLARE_METHOD

// NOT_FOUND names the known methods.
absl::StatusOr<std::unique_ptr<TrainingMethod>> MakeTrainingMethod(const MethodContext& context);

// New and old embeddings of the same images. Old embeddings have no gradient.
struct HbctSides {
  Embedded fresh, old;
};

// L_entail + L_contrast of docs/internals/training-methods.md with every switch of `config`. Tests differentiate it
// without a training loop. The total is the sum before lambda.
LossTerms HbctCompatibility(const HbctConfig& config, double curvature, const HbctSides& sides,
                            const torch::Tensor& labels);

// The weight of HbctCompatibility in the loss after a share `progress` in [0, 1) of the steps: lambda, or the rest of
// a lambda that falls (hbct.lambda_until).
double HbctWeight(const HbctConfig& config, double progress);

// The loss of the method lightcone that draws new and adapted old embeddings of the same images together, a scalar.
// "infonce": InfoNCE over geodesic distances (cosine: 1 - cos) at lightcone.tau, without other images of a class.
// "distance": mean distance of the pairs. Both sides are results of EmbedPoints at this curvature and get gradients.
torch::Tensor CarriedAlignment(const LightconeConfig& config, const Embedded& fresh, const Embedded& carried,
                               bool lorentz, double curvature, const torch::Tensor& labels);

}  // namespace lightcone
