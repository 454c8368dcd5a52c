#include "base/number_text.h"
#include "base/status.h"
#include "models/encoders/encoder_torch.h"
#include "trainer/evaluate.h"
#include "trainer/methods/method.h"
#include "trainer/old_model_torch.h"

namespace lightcone {
namespace {

absl::Status Mismatch(const std::string& field, const std::string& value, const std::string& allowed) {
  return FieldError(absl::StatusCode::kFailedPrecondition, "old_model." + field, value, allowed);
}

absl::Status CheckSameSpace(const Manifest& old, const TrainConfig& config) {
  if (old.metric != config.metric) return Mismatch("metric", old.metric, StrCat(config.metric, ", as the new model"));
  const int64_t prefix = LayoutOf(config).prefix;
  if (old.dimension != prefix && !OnlyThroughAdapter(config)) {
    const bool can = FindTrainingMethod(config.method)->ends_with_adapter;
    return Mismatch("dimension", StrCat(old.dimension),
                    StrCat(prefix, ", as the new model", can ? "; or any with lightcone.compatible=none" : ""));
  }
  if (old.metric == "lorentz" && old.curvature != config.curvature) {
    return Mismatch("curvature", NumberText(old.curvature), StrCat(NumberText(config.curvature), ", as the new model"));
  }
  if (old.input.channels != config.encoder.channels) {
    return Mismatch("input.channels", StrCat(old.input.channels), StrCat(config.encoder.channels, ", as the data set"));
  }
  return absl::OkStatus();
}

torch::Tensor PerChannel(const std::vector<float>& values) {
  return torch::tensor(values).reshape({1, static_cast<int64_t>(values.size()), 1, 1});
}

// `made` where it has this size, else the matrix on the device.
torch::Tensor ResizeAxis(const torch::Tensor& made, int64_t from, int64_t to, const torch::Device& device) {
  if (made.defined() && made.size(1) == from) return made;
  return torch::tensor(ResizeMatrix(static_cast<int>(from), static_cast<int>(to))).reshape({to, from}).to(device);
}

}  // namespace

absl::StatusOr<std::unique_ptr<OldModel>> OldModel::Load(const std::string& folder, const TrainConfig& config,
                                                         const Normalisation& normalisation) {
  absl::StatusOr<std::unique_ptr<Encoder>> encoder = Encoder::LoadFolder(folder, {.device = config.device});
  if (!encoder.ok()) return Annotate(encoder.status(), "old_model");
  LC_RETURN_IF_ERROR(CheckSameSpace((*encoder)->manifest(), config));
  auto model = std::unique_ptr<OldModel>(new OldModel(std::move(*encoder)));
  const ManifestInput& input = model->manifest().input;
  const torch::Device images_on = model->encoder_->impl().device;
  if (config.encoder.height > 0) model->rows_ = ResizeAxis({}, config.encoder.height, input.height, images_on);
  if (config.encoder.width_px > 0) model->columns_ = ResizeAxis({}, config.encoder.width_px, input.width, images_on);
  if (input.mean != normalisation.mean || input.stddev != normalisation.stddev) {
    // x_old = (x_new stddev_new + mean_new - mean_old) / stddev_old
    const torch::Tensor stddev = PerChannel(input.stddev);
    model->scale_ = (PerChannel(normalisation.stddev) / stddev).to(images_on);
    model->shift_ = ((PerChannel(normalisation.mean) - PerChannel(input.mean)) / stddev).to(images_on);
  }
  return model;
}

torch::Tensor OldModel::Embed(const torch::Tensor& images) const {
  torch::NoGradGuard no_grad;
  const ManifestInput& input = manifest().input;
  torch::Tensor x = images.to(encoder_->impl().device);
  // Resizes like the server, by averages over footprints, which this library's interpolations do not offer.
  if (x.size(2) != input.height) x = torch::matmul(ResizeAxis(rows_, x.size(2), input.height, x.device()), x);
  if (x.size(3) != input.width) x = torch::matmul(x, ResizeAxis(columns_, x.size(3), input.width, x.device()).t());
  if (scale_.defined()) x = x * scale_ + shift_;
  return encoder_->impl().Forward(x);
}

absl::StatusOr<torch::Tensor> OldModel::EmbedAll(const ImageSet& images) const {
  LC_ASSIGN_OR_RETURN(const std::vector<float> z, EmbedSplit(*encoder_, images));
  return torch::tensor(z).reshape({images.size(), encoder_->dimension()});
}

}  // namespace lightcone
