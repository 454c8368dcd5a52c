#include <algorithm>
#include <bit>
#include <cmath>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/encoders/checkpoint_torch.h"
#include "trainer/class_names.h"
#include "trainer/run_file.h"
#include "trainer/run_torch.h"

namespace lightcone {

namespace {

// Whether the scalar is finite. REQUIRES: a scalar on the CPU, where this reads memory.
bool IsFinite(const torch::Tensor& scalar) {
  LC_DCHECK(scalar.device().is_cpu());
  if (scalar.scalar_type() == torch::kFloat32) return std::isfinite(*scalar.data_ptr<float>());
  return std::isfinite(scalar.item<double>());
}

}  // namespace

void LossMeter::Add(const LossTerms& terms) {
  if (sums_.empty()) {
    const auto on_its_device = terms.total.options().dtype(torch::kFloat64).requires_grad(false);
    sums_.emplace_back("total", torch::zeros({}, on_its_device));
    for (const auto& part : terms.parts) sums_.emplace_back(part.first, torch::zeros({}, on_its_device));
  }
  sums_[0].second.add_(terms.total.detach());
  for (size_t i = 0; i < terms.parts.size(); ++i) sums_[i + 1].second.add_(terms.parts[i].second);
  ++steps_;
}

void LossMeter::Clear() {
  sums_.clear();
  steps_ = 0;
}

std::vector<std::pair<std::string, double>> LossMeter::Means() const {
  std::vector<std::pair<std::string, double>> means;
  for (const auto& [name, sum] : sums_) means.emplace_back(name, sum.item<double>() / static_cast<double>(steps_));
  return means;
}

void LossWatch::Add(const LossTerms& terms, int64_t step) {
  if (first_) return;
  if (terms.total.device().is_cpu()) {
    if (IsFinite(terms.total)) return;
    first_ = Bad{"total", step};
    for (const auto& [name, value] : terms.parts) {
      if (IsFinite(value)) continue;
      first_->part = name;
      return;
    }
    return;
  }
  torch::NoGradGuard no_grad;
  const auto on_its_device = terms.total.options().dtype(torch::kInt64).requires_grad(false);
  if (bad_.empty()) {
    for (const auto& part : terms.parts) bad_.emplace_back(part.first, torch::full({}, -1, on_its_device));
    bad_.emplace_back("total", torch::full({}, -1, on_its_device));
  }
  for (size_t i = 0; i < bad_.size(); ++i) {
    const torch::Tensor& value = i < terms.parts.size() ? terms.parts[i].second : terms.total;
    torch::Tensor& bad = bad_[i].second;
    bad = torch::where(torch::isfinite(value.detach()).logical_or(bad >= 0), bad, torch::full_like(bad, step));
  }
}

std::optional<LossWatch::Bad> LossWatch::First() const {
  if (first_) return first_;
  std::optional<Bad> first;
  for (const auto& [part, step] : bad_) {
    const int64_t at = step.item<int64_t>();
    if (at >= 0 && (!first || at < first->step)) first = Bad{part, at};
  }
  return first;
}

namespace {

// The name of the first trained tensor with a number that is not finite.
std::optional<std::string> FirstNotFinite(const torch::nn::Module& module, const std::string& what) {
  torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& t = item.value();
    // Untrained tensors are free: an operator's module has its own constants.
    if (!t.requires_grad() || !t.is_floating_point()) continue;
    if (!torch::isfinite(t).all().item<bool>()) return StrCat(what, ".", item.key());
  }
  return std::nullopt;
}

// Independent streams of one seed: weights, head, order and augmentation.
constexpr uint64_t kWeightStream = 1, kClassifierStream = 2, kScriptStream = 4;  // stream 3 is kDataStream of train.cc

absl::Status CheckDataset(const Dataset& dataset, const TrainConfig& config) {
  const ImageSet& train = dataset.train;
  if (train.size() < 2) return InvalidField("dataset.train", StrCat(train.size(), " images"), "at least 2 images");
  if (dataset.classes() < 2) return InvalidField("dataset.classes", StrCat(dataset.classes()), "at least 2 classes");
  if (train.in_memory() && static_cast<int64_t>(train.pixels.size()) != train.size() * train.bytes_per_image()) {
    return InvalidField("dataset.train.pixels", StrCat(train.pixels.size(), " bytes"),
                        StrCat(train.size() * train.bytes_per_image(), " bytes"));
  }
  for (int32_t label : train.labels) {
    if (label < 0 || label >= dataset.classes()) {
      return InvalidField("dataset.train.labels", StrCat(label), StrCat("0 .. ", dataset.classes() - 1));
    }
  }
  const int64_t together = FindTrainingMethod(config.method)->same_class;
  if (together > 1) {
    std::vector<int64_t> images(static_cast<size_t>(dataset.classes()), 0);
    for (const int32_t label : train.labels) ++images[static_cast<size_t>(label)];
    // A batch needs images of two classes to tell them apart.
    const auto large = std::count_if(images.begin(), images.end(), [&](int64_t n) { return n >= together; });
    if (large < 2) {
      return InvalidField("dataset.train", StrCat(large, " classes of ", together, " images or more"),
                          StrCat("two or more for method '", config.method, "'"));
    }
    if (config.batch < 2 * together) {
      return InvalidField("batch", StrCat(config.batch),
                          StrCat("at least ", 2 * together, " for method '", config.method, "'"));
    }
  }
  if (config.batch > train.size()) {
    return InvalidField("batch", StrCat(config.batch),
                        StrCat("2 .. ", train.size(), ", the images of the training set"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainConfig> ResolveConfig(const Dataset& dataset, const TrainConfig& config) {
  TrainConfig resolved = config;
  if (dataset.train.size() > 0) {  // some architectures accept only some sizes
    resolved.encoder.height = dataset.train.height;
    resolved.encoder.width_px = dataset.train.width;
    resolved.encoder.channels = dataset.train.channels;
  }
  LC_RETURN_IF_ERROR(resolved.Validate());
  LC_RETURN_IF_ERROR(CheckDataset(dataset, resolved));
  LC_ASSIGN_OR_RETURN(resolved.device, DeviceOf(resolved));
  LC_ASSIGN_OR_RETURN(resolved.precision, PrecisionOf(resolved));
  resolved.hbct.normals = NormalsFor(resolved, dataset.train);
  if (resolved.clip_radius == 0) {
    resolved.clip_radius = 1.0;
    if (!resolved.old_model.empty()) {
      absl::StatusOr<Manifest> old = ReadManifest(resolved.old_model);
      if (!old.ok()) return Annotate(old.status(), "old_model");
      resolved.clip_radius = old->clip_radius + config.clip_step;
    }
    LC_RETURN_IF_ERROR(resolved.Validate());  // the new radius must suit the curvature
  }
  return resolved;
}

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(const Dataset& dataset, const TrainConfig& config) {
  auto run = std::unique_ptr<TrainingRun>(new TrainingRun(dataset, config));
  // Data and method enter the seed: models of one experiment with the same start would be half compatible by that
  // alone.
  const uint64_t seed = MixSeed({config.seed, DataChecksum(dataset), Crc32c(config.method)});
  const VectorLayout layout = LayoutOf(config);
  EncoderConfig encoder = config.encoder;
  encoder.dimension = static_cast<int>(layout.network);
  LC_ASSIGN_OR_RETURN(run->network_, BuildNetwork(encoder, MixSeed({seed, kWeightStream})));
  run->device_ = torch::Device(config.device);
  if (run->device_.is_cuda()) at::globalContext().setBenchmarkCuDNN(true);  // shapes are the same in all steps
  run->network_->to(run->device_);
  run->network_->train();
  run->network_->TrainInBf16(config.precision == "bf16");
  run->classifier_ =
      std::make_shared<Classifier>(dataset.classes(), layout.head, config.metric == "lorentz", config.curvature,
                                   config.classifier_scale, MixSeed({seed, kClassifierStream}), HeadOptionsOf(config));
  run->classifier_->to(run->device_);
  if (FindTrainingMethod(config.method)->needs_old_model) {
    LC_ASSIGN_OR_RETURN(run->old_model_, OldModel::Load(config.old_model, config, dataset.normalisation));
  }
  const MethodContext context{run->config_, run->dataset_, *run->classifier_, run->old_model_.get(),
                              [run = run.get()] { return run->EmbedTrain(); }};
  LC_ASSIGN_OR_RETURN(run->method_, MakeTrainingMethod(context));
  if (const std::shared_ptr<torch::nn::Module> own = run->method_->module()) own->to(run->device_);
  run->MakeOptimizer();
  if (!run->device_.is_cpu() && dataset.train.in_memory()) {
    try {
      run->device_images_.emplace(dataset.train, dataset.normalisation, run->device_);
    } catch (const c10::OutOfMemoryError&) {  // the loader makes the batches instead, as for files
    }
  }
  return run;
}

void TrainingRun::MakeOptimizer() {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> decayed, free;
  for (const auto& item : network_->named_parameters()) {
    torch::Tensor parameter = item.value();
    if (config_.channels_last && parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
    (item.key() == "log_alpha" ? free : decayed).push_back(parameter);
  }
  if (const std::shared_ptr<torch::nn::Module> own = method_->module()) {
    for (const torch::Tensor& parameter : own->parameters()) decayed.push_back(parameter);
  }
  torch::optim::SGDOptions options(config_.learning_rate);
  options.momentum(config_.momentum).nesterov(config_.nesterov).weight_decay(config_.weight_decay);
  optimizer_ = std::make_unique<torch::optim::SGD>(std::vector<torch::optim::OptimizerParamGroup>{{decayed}}, options);
  rate_factors_ = {1.0};
  const auto add = [&](std::vector<torch::Tensor> parameters, double weight_decay, double rate_factor) {
    auto own = std::make_unique<torch::optim::SGDOptions>(options);
    own->weight_decay(weight_decay);
    optimizer_->add_param_group(torch::optim::OptimizerParamGroup(std::move(parameters), std::move(own)));
    rate_factors_.push_back(rate_factor);
  };
  std::vector<torch::Tensor> head, curvature;
  for (const auto& item : classifier_->named_parameters()) {
    (item.key() == "log_curvature" ? curvature : head).push_back(item.value());
  }
  add(std::move(head), config_.classifier_weight_decay, 1.0);
  if (!free.empty()) add(std::move(free), 0, 1.0);
  if (!curvature.empty()) add(std::move(curvature), 0, config_.curvature_learning_rate / config_.learning_rate);
}

absl::StatusOr<torch::Tensor> TrainingRun::EmbedTrain() {
  torch::NoGradGuard no_grad;
  LoaderOptions options;
  options.batch_size = std::min<int64_t>(256, dataset_.train.size());
  options.shuffle = options.drop_last = false;
  options.workers = static_cast<int>(config_.loader_threads);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<BatchLoader> loader,
                      BatchLoader::Create(&dataset_.train, dataset_.normalisation, options));
  std::vector<torch::Tensor> blocks;
  Batch batch;
  network_->eval();
  while (loader->Next(&batch)) blocks.push_back(network_->forward(InputOf(batch)).cpu());
  network_->train();
  LC_RETURN_IF_ERROR(loader->status());
  return torch::cat(blocks, 0);
}

torch::Tensor TrainingRun::InputOf(Batch& batch) const {
  const EncoderConfig& e = config_.encoder;
  torch::Tensor images;
  if (batch.images.empty() && batch.size() > 0) {
    images = device_images_->Changed(batch.indices, AugmentOf(config_, dataset_), batch.changes);
    if (!config_.channels_last) images = images.contiguous();
    return images;
  }
  images = torch::from_blob(batch.images.data(), {batch.size(), e.channels, e.height, e.width_px});
  if (config_.channels_last) images = InChannelsLast(images);
  return images.to(device_, /*non_blocking=*/true);
}

LossTerms TrainingRun::Step(Batch& batch, double learning_rate, double progress) {
  std::vector<torch::optim::OptimizerParamGroup>& groups = optimizer_->param_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    static_cast<torch::optim::SGDOptions&>(groups[i].options()).lr(learning_rate * rate_factors_[i]);
  }
  const torch::Tensor labels32 = torch::from_blob(batch.labels.data(), {batch.size()}, torch::kInt32);
  const torch::Tensor rows = torch::from_blob(batch.indices.data(), {batch.size()}, torch::kInt64);
  const torch::Tensor labels = labels32.to(device_, /*non_blocking=*/true).to(torch::kInt64);
  const StepBatch step{InputOf(batch), labels, rows, progress};
  // An operator's module draws from torch's own generator (dropout), which becomes a function of seed and step.
  if (network_->script() != nullptr) {
    torch::manual_seed(MixSeed({config_.seed, kScriptStream, std::bit_cast<uint64_t>(progress)}));
  }
  LossTerms terms = method_->Loss(step, network_->forward(step.images));
  if (device_.is_cpu() && !IsFinite(terms.total)) return terms;
  optimizer_->zero_grad();
  terms.total.backward();
  if (config_.gradient_clip > 0) ClipGradients();
  optimizer_->step();
  network_->LimitRescale();
  classifier_->LimitCurvature();
  return terms;
}

// torch's own function reads the norm as a number, and so waits for the device.
void TrainingRun::ClipGradients() {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients, norms;
  for (const torch::optim::OptimizerParamGroup& group : optimizer_->param_groups()) {  // the norm spans all groups
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  if (gradients.empty()) return;
  for (const torch::Tensor& gradient : gradients) norms.push_back(gradient.norm(2));
  const torch::Tensor norm = norms.size() == 1 ? norms[0] : torch::stack(norms).norm(2);
  const torch::Tensor factor = torch::clamp_max(config_.gradient_clip / (norm + 1e-6), 1.0);
  for (torch::Tensor& gradient : gradients) gradient.mul_(factor);
}

absl::Status TrainingRun::CheckFinite() const {
  std::optional<std::string> bad = FirstNotFinite(*network_, "network");
  if (!bad) bad = FirstNotFinite(*classifier_, "classifier");
  if (const std::shared_ptr<torch::nn::Module> own = method_->module(); own && !bad) {
    bad = FirstNotFinite(*own, "method");
  }
  if (!bad) return absl::OkStatus();
  return Internal(StrCat("'", *bad, "' has a number that is not finite"));
}

absl::Status TrainingRun::Save(Checkpoint& checkpoint) const {
  LC_ASSIGN_OR_RETURN(checkpoint.sections["network"], SaveModule(*network_));
  LC_ASSIGN_OR_RETURN(checkpoint.sections["classifier"], SaveModule(*classifier_));
  LC_ASSIGN_OR_RETURN(checkpoint.sections["optimizer"], SaveOptimizer(*optimizer_));
  if (const std::shared_ptr<torch::nn::Module> own = method_->module()) {
    LC_ASSIGN_OR_RETURN(checkpoint.sections["method"], SaveModule(*own));
  }
  checkpoint.sections["classes"] = ClassNamesToJson(dataset_.class_names);
  return absl::OkStatus();
}

absl::Status TrainingRun::Load(const Checkpoint& checkpoint) {
  LC_ASSIGN_OR_RETURN(const std::string_view network, checkpoint.Section("network"));
  LC_ASSIGN_OR_RETURN(const std::string_view classifier, checkpoint.Section("classifier"));
  LC_ASSIGN_OR_RETURN(const std::string_view optimizer, checkpoint.Section("optimizer"));
  LC_RETURN_IF_ERROR(LoadModule(network, "network", *network_));
  LC_RETURN_IF_ERROR(LoadModule(classifier, "classifier", *classifier_));
  if (const std::shared_ptr<torch::nn::Module> own = method_->module()) {
    LC_ASSIGN_OR_RETURN(const std::string_view method, checkpoint.Section("method"));
    LC_RETURN_IF_ERROR(LoadModule(method, "method", *own));
  }
  return LoadOptimizer(optimizer, *optimizer_);
}

}  // namespace lightcone
