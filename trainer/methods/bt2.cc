// BT2 (docs/internals/training-baselines.md, bt2): the embedding is longer than the old one. Its first numbers compare
// with old embeddings. Orthogonal changes of basis keep room for the knowledge of an independent new model.
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/frozen_features_torch.h"
#include "trainer/losses/bt2_torch.h"
#include "trainer/losses/classwise_torch.h"
#include "trainer/methods/method_torch.h"

namespace lightcone {
namespace {

constexpr uint64_t kTransformStream = 0xb72;

Bt2Shape ShapeOf(const TrainConfig& config) {
  Bt2Shape shape;
  shape.old_dimension = config.encoder.dimension;
  shape.new_dimension = config.bt2.new_dimension > 0 ? config.bt2.new_dimension : config.encoder.dimension;
  shape.extra = config.extra_dimensions;
  shape.scale = config.bt2.scale;
  shape.cayley = config.bt2.orthogonal == "cayley";
  shape.relu_input = config.bt2.f == "released";
  return shape;
}

absl::Status CheckShape(const Bt2Shape& shape) {
  if (shape.extra < 1 || shape.extra >= shape.old_dimension) {
    return InvalidField("extra_dimensions", StrCat(shape.extra),
                        StrCat("1 .. ", shape.old_dimension - 1, ", below encoder.dimension (method 'bt2')"));
  }
  if (shape.old_dimension - shape.extra > shape.new_dimension) {
    return InvalidField("bt2.new_dimension", StrCat(shape.new_dimension),
                        StrCat("at least encoder.dimension - extra_dimensions = ", shape.old_dimension - shape.extra));
  }
  return absl::OkStatus();
}

// The inputs of the steps, made once.
struct Bt2Inputs {
  FrozenFeatures old;
  torch::Tensor pseudo_heads;            // heads of the old classes, [classes, n]
  std::unique_ptr<OldModel> base_model;  // base model; null without lambda1
  std::optional<FrozenFeatures> base;
};

absl::StatusOr<Bt2Inputs> MakeInputs(const MethodContext& context, const Bt2Shape& shape) {
  const TrainConfig& c = context.config;
  LC_ASSIGN_OR_RETURN(FrozenFeatures old,
                      FrozenFeatures::Create(*context.old_model, context.dataset, c, c.bt2.old_features));
  torch::Tensor heads = ClassMeansOf(old.all(), LabelTensor(context.dataset.train), context.dataset.classes());
  Bt2Inputs inputs{std::move(old), std::move(heads), nullptr, std::nullopt};
  if (c.bt2.lambda1 == 0) return inputs;
  if (c.bt2.base_model.empty()) {
    return InvalidField("bt2.base_model", "", "the folder of a model trained alone on the new data; or bt2.lambda1 0");
  }
  TrainConfig alone = c;
  alone.method = "independent";
  alone.encoder.dimension = static_cast<int>(shape.new_dimension);
  absl::StatusOr<std::unique_ptr<OldModel>> base =
      OldModel::Load(c.bt2.base_model, alone, context.dataset.normalisation);
  if (!base.ok()) return Annotate(base.status(), "bt2.base_model");
  inputs.base_model = *std::move(base);
  LC_ASSIGN_OR_RETURN(FrozenFeatures features,
                      FrozenFeatures::Create(*inputs.base_model, context.dataset, c, c.bt2.old_features));
  inputs.base = std::move(features);
  return inputs;
}

class Bt2 : public TrainingMethod {
 public:
  Bt2(const MethodContext& context, const Bt2Shape& shape, Bt2Inputs inputs)
      : context_(context), inputs_(std::move(inputs)) {
    const uint64_t seed =
        MixSeed({context.config.seed, context.old_model->manifest().encoder_crc32c, kTransformStream});
    transform_ = std::make_shared<Bt2Transform>(shape, seed);
  }

  LossTerms Loss(const StepBatch& batch, const torch::Tensor& z) override {
    const TrainConfig& c = context_.config;
    MoveOnce(z.device(), {&inputs_.pseudo_heads});
    const Bt2Parts parts = transform_->Apply(z);
    const torch::Tensor base =
        context_.classifier.Loss(context_.classifier.Embed(parts.phi3, c.clip_radius), batch.labels);
    const torch::Tensor like = inputs_.base ? inputs_.base->Of(batch.images, batch.rows) : torch::Tensor();
    const Bt2Losses losses =
        Bt2Compatibility(parts, batch.labels, inputs_.pseudo_heads, inputs_.old.Of(batch.images, batch.rows), like,
                         {c.bt2.lambda1, c.bt2.lambda2, c.bt2.lambda3});
    LossTerms terms{base + losses.total,
                    {{"base", base.detach()}, {"pseudo", losses.pseudo.detach()}, {"old", losses.old.detach()}}};
    if (losses.base_model.defined()) terms.parts.emplace_back("alike", losses.base_model.detach());
    return terms;
  }

  std::shared_ptr<torch::nn::Module> module() override { return transform_; }
  OutputTransform ExportedTransform() const override { return transform_->Frozen(); }
  uint32_t OtherModelsCrc32c() const override {
    return inputs_.base_model == nullptr ? 0 : inputs_.base_model->manifest().encoder_crc32c;
  }

 private:
  const MethodContext context_;
  Bt2Inputs inputs_;  // inputs of the steps, whose tensors may move between devices
  std::shared_ptr<Bt2Transform> transform_;
};

}  // namespace

MethodEntry Bt2Method() {
  MethodEntry entry;
  entry.info.name = "bt2";
  entry.info.help = "basis transformation: a longer vector whose first numbers compare with old ones";
  entry.info.source = "BT2, Algorithm 1 and its losses; pseudo classes as in the release";
  entry.info.needs_old_model = true;
  entry.info.metric = "cosine";
  entry.info.switches = {"old_model",       "extra_dimensions", "bt2.new_dimension", "bt2.base_model", "bt2.scale",
                         "bt2.lambda1",     "bt2.lambda2",      "bt2.lambda3",       "bt2.orthogonal", "bt2.f",
                         "bt2.old_features"};
  entry.layout = [](const TrainConfig& config) {
    const Bt2Shape shape = ShapeOf(config);
    return VectorLayout{.network = shape.input(),
                        .head = shape.new_dimension,
                        .embedding = shape.output(),
                        .prefix = shape.old_dimension};
  };
  entry.make = [](const MethodContext& context) -> absl::StatusOr<std::unique_ptr<TrainingMethod>> {
    const Bt2Shape shape = ShapeOf(context.config);
    LC_RETURN_IF_ERROR(CheckShape(shape));
    LC_ASSIGN_OR_RETURN(Bt2Inputs inputs, MakeInputs(context, shape));
    return std::make_unique<Bt2>(context, shape, std::move(inputs));
  };
  return entry;
}

}  // namespace lightcone
