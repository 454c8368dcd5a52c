#include "trainer/config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/number_text.h"
#include "base/status.h"
#include "geometry/metric.h"
#include "models/device.h"
#include "models/json_fields.h"
#include "nlohmann/json.hpp"
#include "trainer/config_rows.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

using internal::IsWord;
using internal::MakeRow;
using internal::Row;
using internal::ShowJson;

constexpr int64_t kDimensionMax = 4096;  // of anything that a network gives
// Of sqrt(K) * hbct.entail_clip: an angle is told from a difference of products of sinh and cosh, which is noise in
// float32 where both sides lie further out.
constexpr double kScaledConeRadiusMax = 5.0;

std::string ArchitectureNames() {
  std::string names;
  for (const ArchitectureInfo& info : Architectures()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

std::string MethodNames() {
  std::string names;
  for (const MethodInfo& info : TrainingMethods()) names += (names.empty() ? "" : ", ") + info.name;
  return names;
}

std::vector<Row> ModelRows() {
  std::vector<Row> rows;
  rows.push_back(LC_TEXT("name", name, 1, 128, "name of the model in its manifest"));
  rows.push_back(LC_TEXT("recipe", recipe, 1, 64, "the preset that these options came from"));
  rows.push_back(MakeRow("method", "training method", MethodNames(), LC_FIELD(method),
                         [](const TrainConfig& c) { return FindTrainingMethod(c.method) != nullptr; }));
  rows.push_back(MakeRow("encoder.architecture", "network", ArchitectureNames(), LC_FIELD(encoder.architecture),
                         [](const TrainConfig& c) { return IsWord(c.encoder.architecture, ArchitectureNames()); }));
  rows.push_back(LC_NUMBER("encoder.width", encoder.width, 0.0625, 8.0, "factor on the channels of every layer"));
  rows.push_back(LC_WORD("encoder.stem", encoder.stem, "auto, cifar, imagenet",
                         "first layers of resnet18, resnet50 and alexnet; auto: cifar below 128 pixels"));
  rows.push_back(
      LC_TEXT("encoder.backbone_file", encoder.backbone_file, 0, 4096, "torchscript: file of the backbone module"));
  rows.push_back(LC_BOOL("encoder.frozen", encoder.frozen, "torchscript: train the head only"));
  rows.push_back(LC_NUMBER("encoder.dimension", encoder.dimension, 2, 4096, "d, numbers in an embedding"));
  rows.push_back(LC_WORD("encoder.rescale", encoder.rescale, "none, fixed, learnable",
                         "factor on the embedding before the clip: 1, d^-1/2, or learnt from d^-1/2 on"));
  rows.push_back(LC_BOOL("encoder.head_bias", encoder.head_bias, "bias in the embedding layer"));
  rows.push_back(LC_BOOL("encoder.head_batch_norm", encoder.head_batch_norm, "batch norm after the embedding layer"));
  rows.push_back(LC_WORD("metric", metric, "lorentz, cosine, euclidean",
                         "space of the embeddings; lorentz trains Lorentz MLR, the others a softmax"));
  rows.push_back(LC_WORD("base_loss", base_loss, "auto, lorentz-mlr, softmax, arcface, cosface, bce",
                         "loss of the head; auto: lorentz-mlr for metric lorentz, else softmax"));
  rows.push_back(LC_NUMBER("base_scale", base_scale, 1e-3, 1000.0, "s of arcface and cosface"));
  rows.push_back(
      LC_NUMBER("base_margin", base_margin, 0.0, 1.5, "m of arcface and cosface; 0: 0.5 and 0.35, the papers'"));
  rows.push_back(LC_NUMBER("curvature", curvature, 0.001, 1000.0, "K: the hyperboloid has curvature -K"));
  rows.push_back(LC_BOOL("learn_curvature", learn_curvature,
                         "lorentz: K is learnt from `curvature` on, as log K within a factor of 10"));
  rows.push_back(LC_NUMBER("curvature_learning_rate", curvature_learning_rate, 0.0, 1.0,
                           "of log K at the start, before the schedule; it has no weight decay"));
  rows.push_back(LC_NUMBER("classifier_scale", classifier_scale, 0.001, 1000.0,
                           "lorentz: factor on the class normals at the start; they are drawn with norm 0.58"));
  rows.push_back(LC_NUMBER("clip_radius", clip_radius, 0.0, 100.0,
                           "zeta, largest tangent norm; 0: the old model's + clip_step, or 1 without an old model"));
  rows.push_back(LC_NUMBER("clip_step", clip_step, 0.0, 10.0, "what clip_radius 0 adds to the old model's"));
  rows.push_back(LC_NUMBER("extra_dimensions", extra_dimensions, 1, 4096,
                           "numbers that bct+32 and bt2 append to the old model's d"));
  return rows;
}

std::vector<Row> OptimisationRows() {
  std::vector<Row> rows;
  rows.push_back(LC_NUMBER("epochs", epochs, 1, 100000, "passes over the training set"));
  rows.push_back(LC_NUMBER("batch", batch, 2, 65536, "images a step"));
  rows.push_back(LC_NUMBER("learning_rate", learning_rate, 1e-8, 100.0, "at the start, before the schedule"));
  rows.push_back(LC_NUMBER("momentum", momentum, 0.0, 0.9999, "of SGD"));
  rows.push_back(LC_BOOL("nesterov", nesterov, "Nesterov momentum"));
  rows.push_back(
      LC_NUMBER("weight_decay", weight_decay, 0.0, 1.0, "on the network, but not on a learnt rescale factor"));
  rows.push_back(LC_NUMBER("classifier_weight_decay", classifier_weight_decay, 0.0, 1.0, "on the head"));
  rows.push_back(LC_WORD(
      "schedule", schedule, "cosine-step, cosine-epoch, linear-step, step, constant",
      "learning rate: to 0 along a cosine by step or by epoch, or linearly; x 0.2 at 30, 60, 80 %; or constant"));
  rows.push_back(LC_NUMBER("warmup_epochs", warmup_epochs, 0.0, 1000.0, "linear rise of the learning rate from 0"));
  rows.push_back(LC_NUMBER("gradient_clip", gradient_clip, 0.0, 1e6, "largest global gradient norm; 0: none"));
  rows.push_back(
      LC_WORD("augment", augment, "auto, none, photo, drawing", "random changes; auto: what the data set says"));
  rows.push_back(LC_BOOL("channels_last", channels_last, "memory layout of images and filters"));
  rows.push_back(LC_WORD("precision", precision, "float32, bf16, auto",
                         "of the backbone in training steps; auto: bf16 where the processor has it"));
  rows.push_back(LC_WORD("device", device, "auto, cpu, cuda", "where it trains; auto: CUDA where there is one"));
  rows.push_back(LC_NUMBER("seed", seed, 0, 1.8446744073709552e19, "of weights, order and augmentation"));
  rows.push_back(LC_NUMBER("threads", threads, 0, 1024, "of the tensor library; 0: OMP_NUM_THREADS, else every core"));
  rows.push_back(LC_NUMBER("loader_threads", loader_threads, 1, 64, "threads that prepare batches"));
  rows.push_back(
      LC_NUMBER("checkpoint_seconds", checkpoint_seconds, 0.0, 86400.0, "between checkpoints; 0: each step"));
  return rows;
}

std::vector<Row> HbctRows() {
  std::vector<Row> rows;
  rows.push_back(LC_TEXT("old_model", old_model, 0, 4096, "folder of the model to be compatible with"));
  rows.push_back(LC_BOOL("cached_old_features", cached_old_features,
                         "old embeddings once an image, not on each augmented batch (hbct has a switch of its own)"));
  rows.push_back(LC_NUMBER("hbct.lambda", hbct.lambda, 0.0, 1000.0, "weight of entailment + contrast"));
  rows.push_back(LC_NUMBER("hbct.lambda_until", hbct.lambda_until, 0.0, 1.0,
                           "share of the steps over which lambda falls to 0; 0: it stays"));
  rows.push_back(LC_BOOL("hbct.entailment", hbct.entailment, "entailment loss"));
  rows.push_back(LC_NUMBER("hbct.epsilon", hbct.epsilon, 1e-6, 10.0, "minimum radius of the entailment cones"));
  rows.push_back(LC_WORD("hbct.contrast", hbct.contrast, "rince, infonce, distance, none", "contrastive loss"));
  rows.push_back(
      LC_WORD("hbct.distance", hbct.distance, "geodesic, inner, squared", "distance in the contrastive loss"));
  rows.push_back(LC_NUMBER("hbct.tau", hbct.tau, 1e-4, 1000.0, "temperature"));
  rows.push_back(LC_NUMBER("hbct.beta", hbct.beta, 1e-9, 1000.0, "weight of the sum in RINCE"));
  rows.push_back(
      LC_WORD("hbct.q_mode", hbct.q_mode, "sample, fixed", "q of RINCE: old uncertainty of the sample, or q_fixed"));
  rows.push_back(LC_NUMBER("hbct.q_fixed", hbct.q_fixed, 1e-6, 1.0, "q when q_mode is fixed"));
  rows.push_back(LC_NUMBER("hbct.q_min", hbct.q_min, 1e-6, 1.0, "lower bound of q"));
  rows.push_back(LC_WORD("hbct.uncertainty", hbct.uncertainty, "ratio, paper-line3", "1 - |s|/t, or 1 - tanh(k|z|)/k"));
  rows.push_back(LC_WORD("hbct.normals", hbct.normals, "drawn, old-means, auto",
                         "directions of the class normals at the start: random, or of the class's mean old embedding; "
                         "auto: those of the means where a class is met 1,000 times or less in the training"));
  rows.push_back(LC_BOOL("hbct.mask_same_class", hbct.mask_same_class, "same-class old embeddings are no negatives"));
  rows.push_back(LC_BOOL("hbct.cached_old_features", hbct.cached_old_features,
                         "old embeddings once an image, not on each augmented batch"));
  rows.push_back(LC_NUMBER("hbct.prototypes", hbct.prototypes, 0.0, 1000.0,
                           "weight, under lambda, of a contrast with the old embeddings' class means; 0: none"));
  rows.push_back(LC_NUMBER("hbct.entail_clip", hbct.entail_clip, 0.0, 100.0,
                           "clip radius of both sides in the entailment loss; 0: their own"));
  rows.push_back(LC_NUMBER("hbct.clip_from", hbct.clip_from, 0.0, 100.0,
                           "clip radius of the first step, which comes to clip_radius by half of the steps; 0: as it"));
  rows.push_back(LC_NUMBER("hbct.self", hbct.self, 0.0, 1000.0,
                           "weight of a contrast with the network's own embeddings of an epoch before; 0: none"));
  return rows;
}

const std::vector<Row>& Rows() {
  static const auto* const kRows = [] {
    auto* rows = new std::vector<Row>(ModelRows());
    for (auto make : {OptimisationRows, HbctRows, internal::BaselineRows, internal::MixingRows}) {
      for (Row& row : make()) rows->push_back(std::move(row));
    }
    for (const MethodInfo& method : TrainingMethods()) {
      for (const OwnOption& option : method.options) rows->push_back(internal::OwnRow(option));
    }
    return rows;
  }();
  return *kRows;
}

const Row* FindRow(std::string_view name) {
  for (const Row& row : Rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

absl::Status CheckRow(const Row& row, const TrainConfig& config) {
  if (row.in_range(config)) return absl::OkStatus();
  return InvalidField(row.name, ShowJson(row.get(config)), row.allowed);
}

absl::Status CheckBaseLoss(const TrainConfig& c) {
  std::string allowed = "auto, softmax, bce";
  if (c.metric == "lorentz") allowed = "auto, lorentz-mlr, bce";
  if (c.metric == "cosine") allowed = "auto, softmax, arcface, cosface, bce";  // only angles count there
  if (IsWord(c.base_loss, allowed)) return absl::OkStatus();
  return InvalidField("base_loss", c.base_loss, StrCat(allowed, " for metric '", c.metric, "'"));
}

absl::Status CheckCombinations(const TrainConfig& c) {
  if (c.learn_curvature && c.metric != "lorentz") {
    return InvalidField("learn_curvature", "true", StrCat("false for metric '", c.metric, "'"));
  }
  const VectorLayout layout = LayoutOf(c);
  if (std::max({layout.network, layout.head, layout.embedding}) > kDimensionMax) {
    return InvalidField("extra_dimensions", StrCat(c.extra_dimensions),
                        StrCat("1 .. ", kDimensionMax, " together with encoder.dimension"));
  }
  if (FindTrainingMethod(c.method)->ends_with_adapter) {
    if (c.metric != "lorentz" && !OnlyThroughAdapter(c)) {
      return InvalidField("metric", c.metric, "lorentz; or cosine with lightcone.compatible=none");
    }
    if (c.metric == "euclidean") {
      return InvalidField("metric", c.metric,
                          StrCat("lorentz, cosine (method '", c.method, "': no adapter to others)"));
    }
    if (c.learn_curvature) {
      return InvalidField("learn_curvature", "true",
                          StrCat("false for method '", c.method, "': a collection has the old model's curvature"));
    }
  }
  if (c.method == "nccl" && c.nccl.queue < c.batch) {
    return InvalidField("nccl.queue", StrCat(c.nccl.queue), StrCat("at least batch (", c.batch, ")"));
  }
  return absl::OkStatus();
}

absl::Status UnknownOption(std::string_view name) {
  std::string names;
  for (const Row& row : Rows()) names += (names.empty() ? "" : ", ") + row.name;
  return InvalidField("option", name, names);
}

}  // namespace

absl::Status TrainConfig::Validate() const {
  for (const Row& row : Rows()) LC_RETURN_IF_ERROR(CheckRow(row, *this));
  LC_RETURN_IF_ERROR(encoder.Validate());
  const MethodInfo& info = *FindTrainingMethod(method);
  if (info.needs_old_model && old_model.empty()) {
    return InvalidField("old_model", "", StrCat("the folder of a trained model (method '", method, "' needs one)"));
  }
  if (!info.metric.empty() && metric != info.metric) {
    return InvalidField("metric", metric, StrCat(info.metric, " (method '", method, "' needs it)"));
  }
  LC_RETURN_IF_ERROR(CheckBaseLoss(*this));
  LC_RETURN_IF_ERROR(CheckCombinations(*this));
  const double curvature_max = learn_curvature ? 10 * curvature : curvature;
  const double radius_max = kScaledClipRadiusMax / std::sqrt(curvature_max);
  const double cone_max = kScaledConeRadiusMax / std::sqrt(curvature_max);
  for (const auto& [name, radius, most, scaled_most] :
       {std::tuple{"clip_radius", clip_radius, radius_max, kScaledClipRadiusMax},
        {"hbct.clip_from", hbct.clip_from, radius_max, kScaledClipRadiusMax},
        {"hbct.entail_clip", hbct.entail_clip, cone_max, kScaledConeRadiusMax}}) {
    if (metric != "lorentz" || radius <= most) continue;  // sinh(k zeta) and its square stay exact in float32
    return InvalidField(name, NumberText(radius),
                        StrCat("0 .. ", NumberText(most), " at curvature ", NumberText(curvature_max),
                               " (sqrt(curvature) * ", name, " is at most ", NumberText(scaled_most), ")"));
  }
  if (nesterov && momentum == 0) return InvalidField("momentum", "0", "above 0 with nesterov, or nesterov false");
  return absl::OkStatus();
}

const std::vector<TrainOption>& TrainOptions() {
  static const auto* const kOptions = [] {
    auto* options = new std::vector<TrainOption>;
    const TrainConfig defaults;
    for (const Row& row : Rows()) {
      options->push_back({row.name, row.help, row.allowed, ShowJson(row.get(defaults))});
    }
    return options;
  }();
  return *kOptions;
}

absl::Status SetTrainOption(TrainConfig& config, std::string_view name, std::string_view value) {
  const Row* row = FindRow(name);
  if (row == nullptr) return UnknownOption(name);
  TrainConfig changed = config;
  json parsed(std::string{value});
  if (!row->get(config).is_string()) {
    parsed = internal::ParseBounded(value);
    if (parsed.is_discarded()) return InvalidField(name, value, row->allowed);
  }
  LC_RETURN_IF_ERROR(row->set(changed, parsed));
  LC_RETURN_IF_ERROR(CheckRow(*row, changed));
  config = std::move(changed);
  return absl::OkStatus();
}

std::string GetTrainOption(const TrainConfig& config, std::string_view name) {
  const Row* row = FindRow(name);
  return row == nullptr ? std::string() : ShowJson(row->get(config));
}

absl::StatusOr<std::string> DeviceOf(const TrainConfig& config) {
  if (config.encoder.architecture != "torchscript") return DeviceFor(config.device, "device");
  if (config.device != "cuda") return std::string("cpu");
  return InvalidField("device", "cuda", "auto or cpu: encoder.architecture torchscript trains on the processor");
}

absl::StatusOr<std::string> PrecisionOf(const TrainConfig& config) {
  LC_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
#if defined(__x86_64__)
  const bool hardware = device == "cuda" || __builtin_cpu_supports("avx512bf16") != 0;
#else
  const bool hardware = device == "cuda";
#endif
  if (config.precision == "auto") return std::string(hardware ? "bf16" : "float32");
  if (config.precision == "bf16" && !hardware) {
    return InvalidField("precision", "bf16", "float32 or auto: this processor has no AVX512_BF16");
  }
  return config.precision;
}

AugmentKind AugmentOf(const TrainConfig& config, const Dataset& dataset) {
  if (config.augment == "none") return AugmentKind::kNone;
  if (config.augment == "photo") return AugmentKind::kPhoto;
  if (config.augment == "drawing") return AugmentKind::kDrawing;
  return dataset.augment;
}

std::string ToJson(const TrainConfig& config) {
  ordered_json out;
  for (const Row& row : Rows()) out[row.name] = row.get(config);
  // A method of somebody's own may be gone tomorrow; the models of others must be readable then.
  for (const MethodInfo& method : TrainingMethods()) {
    if (method.name == config.method) continue;
    for (const OwnOption& option : method.options) out.erase(option.name);
  }
  return out.dump(2, ' ', true, ordered_json::error_handler_t::replace);
}

absl::StatusOr<TrainConfig> ParseTrainConfig(std::string_view text) {
  const json object = internal::ParseBounded(text);
  if (!object.is_object()) {
    return InvalidField("training config", object.is_discarded() ? "malformed JSON" : "another JSON value",
                        "a JSON object");
  }
  TrainConfig config;
  for (const auto& [name, value] : object.items()) {
    const Row* row = FindRow(name);
    if (row == nullptr) return UnknownOption(name);
    LC_RETURN_IF_ERROR(row->set(config, value));
    LC_RETURN_IF_ERROR(CheckRow(*row, config));
  }
  return config;
}

}  // namespace lightcone
