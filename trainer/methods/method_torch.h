// What the training loop asks of a method. One .cc file a method, one line below. Only .cc files of trainer/
// and their tests include this.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/checkpoint_torch.h"
#include "trainer/config.h"
#include "trainer/methods/classifier_torch.h"
#include "trainer/methods/method.h"
#include "trainer/old_model_torch.h"

namespace lightcone {

struct StepBatch {
  torch::Tensor images;  // [n, c, h, w] float32, augmented and normalised
  torch::Tensor labels;  // [n] int64
  torch::Tensor rows;    // [n] int64, always on the CPU: positions in the training set
  double progress = 0;   // share of the training's steps that are done, [0, 1)
};

struct LossTerms {
  torch::Tensor total;                                       // scalar with gradient
  std::vector<std::pair<const char*, torch::Tensor>> parts;  // scalars for the progress line, detached
};

// What a method may use; all of it outlives the method.
struct MethodContext {
  const TrainConfig& config;  // resolved: input sizes and clip radius are set
  const Dataset& dataset;
  const Classifier& classifier;         // trained by the loop together with the network
  const OldModel* old_model = nullptr;  // set when MethodInfo::needs_old_model
  // z of the network as it is at the time of the call, in eval mode and without gradient, for every training image
  // (unaugmented, in the order of the set): [n, VectorLayout::network] on the CPU. Costs a forward pass over the set.
  std::function<absl::StatusOr<torch::Tensor>()> embed_train = {};
};

// Threads: one at a time.
class TrainingMethod {
 public:
  virtual ~TrainingMethod() = default;
  // `z` [n, d]: the network's output for batch.images, before the clip.
  virtual LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) = 0;
  // Called once before a training's first step (a resumed one is past it): may set what the head starts from.
  virtual absl::Status Start(Classifier& classifier) { return absl::OkStatus(); }
  // Parameters and buffers of the method's own (a discriminator, a transformation); nullptr: none. The same module for
  // the method's whole life. The loop trains its parameters as it does the network's, puts it into checkpoints (section
  // "method") and takes it back from there.
  virtual std::shared_ptr<torch::nn::Module> module() { return nullptr; }
  // What an exported encoder applies to the network's output, from VectorLayout::network to ::embedding numbers, with
  // today's weights (models/checkpoint_torch.h); empty: nothing.
  virtual OutputTransform ExportedTransform() const { return {}; }
  // CRC-32C over the models that the steps depend on besides the old one; 0: none. A checkpoint made with others is
  // refused.
  virtual uint32_t OtherModelsCrc32c() const { return 0; }
};

// Brings tensors that a method made on the CPU to where its steps run, the first time that a step asks; undefined ones
// stay so. (Those of module() need it not.)
inline void MoveOnce(torch::Device device, std::initializer_list<torch::Tensor*> tensors) {
  for (torch::Tensor* tensor : tensors) {
    if (tensor->defined() && tensor->device() != device) *tensor = tensor->to(device);
  }
}

struct MethodEntry {
  MethodInfo info;
  std::function<absl::StatusOr<std::unique_ptr<TrainingMethod>>(const MethodContext&)> make;
  // Set by methods whose vectors are longer than the old model's (bct+32, bt2); empty: VectorLayout{d, d, d, d}.
  std::function<VectorLayout(const TrainConfig&)> layout = {};
};

// Every method's row, defined in its own file, in the order in which `lightcone train --list` shows them. A new method
// is its file and its line here.
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

// Two sides of the same images, new and old. Old embeddings carry no gradient.
struct HbctSides {
  Embedded fresh, old;
};

// L_entail + L_contrast of docs/internals/training-methods.md with every switch of `config`, apart from the training
// loop so that tests can differentiate it. Returns total = the weighted sum (without lambda) and its parts. `cones`:
// what the entailment looks at where it is not the same (hbct.entail_clip).
LossTerms HbctCompatibility(const HbctConfig& config, double curvature, const HbctSides& sides,
                            const torch::Tensor& labels, const HbctSides* cones = nullptr);

// Cross-entropy of the new embeddings over minus their distances to the old embeddings' class means, divided by tau
// (hbct.prototypes): a scalar. `means`: a row a class, those of `absent` (bool [classes]) left out: classes without
// training images. `labels` [n]: rows of `means`, none of them absent.
torch::Tensor HbctPrototypeLoss(const HbctConfig& config, double curvature, const Embedded& fresh,
                                const Embedded& means, const torch::Tensor& absent, const torch::Tensor& labels);

// InfoNCE between the embeddings and the network's own of an epoch before (hbct.self), mean over the rows that have
// one: rows of `last` that are not 0. A scalar; 0 where none has.
torch::Tensor HbctSelfLoss(const HbctConfig& config, double curvature, const Embedded& fresh, const Embedded& last);

// The weight of HbctCompatibility in the loss when a share `progress` in [0, 1) of the steps is done: lambda, or with
// hbct.lambda_until what has not yet fallen of it.
double HbctWeight(const HbctConfig& config, double progress);

// The loss that draws new embeddings and carried old ones of the same images together (method lightcone), a scalar:
// InfoNCE over geodesic distances (cosine: 1 - cos) at lightcone.tau, with other images of a class left out of the sum,
// or the mean distance of the pairs. Both sides as EmbedPoints gives them at this curvature; gradients flow into both.
torch::Tensor CarriedAlignment(const LightconeConfig& config, const Embedded& fresh, const Embedded& carried,
                               bool lorentz, double curvature, const torch::Tensor& labels);

}  // namespace lightcone
