#include "trainer/config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/dcheck.h"
#include "base/number_text.h"
#include "base/status.h"
#include "geometry/metric.h"
#include "models/encoders/device.h"
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

constexpr int64_t kDimensionMax = 4096;  // largest dimension of a network's output
// Options that were deleted. Configurations of that time hold them at 0, which changed nothing.
constexpr char kDeletedOptions[] = "hbct.prototypes, hbct.entail_clip, hbct.clip_from, hbct.self";

// "a, b, c": the names of the rows of a table.
template <typename Table>
std::string NamesOf(const Table& table) {
  return absl::StrJoin(table, ", ", [](std::string* out, const auto& row) { *out += row.name; });
}

std::vector<Row> ModelRows() {
  return {
      LC_TEXT(name, 1, 128, "name of the model in its manifest"),
      LC_TEXT(recipe, 1, 64, "preset that these options came from"),
      MakeRow("method", "training method", NamesOf(TrainingMethods()), LC_FIELD(method),
              [](const TrainConfig& c) { return FindTrainingMethod(c.method) != nullptr; }),
      MakeRow("encoder.architecture", "network", NamesOf(Architectures()), LC_FIELD(encoder.architecture),
              [](const TrainConfig& c) { return IsWord(c.encoder.architecture, NamesOf(Architectures())); }),
      LC_NUMBER(encoder.width, 0.0625, 8.0, "factor on the channels of every layer"),
      LC_WORD(encoder.stem, "auto, cifar, imagenet",
              "first layers of resnet18, resnet50 and alexnet; auto: cifar below 128 pixels"),
      LC_TEXT(encoder.backbone_file, 0, 4096, "torchscript: file of the backbone module"),
      LC_BOOL(encoder.frozen, "torchscript: the head alone is trained"),
      LC_NUMBER(encoder.dimension, 2, 4096, "d: numbers in an embedding"),
      LC_WORD(encoder.rescale, "none, fixed, learnable",
              "factor on the embedding before the clip: 1, d^-1/2, or learnt from d^-1/2 on"),
      LC_BOOL(encoder.head_bias, "bias in the embedding layer"),
      LC_BOOL(encoder.head_batch_norm, "batch norm after the embedding layer"),
      LC_WORD(metric, "lorentz, cosine, euclidean",
              "space of the embeddings; lorentz trains Lorentz MLR, the others a softmax"),
      LC_WORD(base_loss, "auto, lorentz-mlr, softmax, arcface, cosface, bce",
              "loss of the head; auto: lorentz-mlr for metric lorentz, else softmax"),
      LC_NUMBER(base_scale, 1e-3, 1000.0, "s of arcface and cosface"),
      LC_NUMBER(base_margin, 0.0, 1.5, "m of arcface and cosface; 0: 0.5 and 0.35, the papers'"),
      LC_NUMBER(curvature, 0.001, 1000.0, "K: the hyperboloid has curvature -K"),
      LC_BOOL(learn_curvature, "lorentz: K is learnt from `curvature` on, as log K within a factor of 10"),
      LC_NUMBER(curvature_learning_rate, 0.0, 1.0,
                "learning rate of log K before the schedule; log K has no weight decay"),
      LC_NUMBER(classifier_scale, 0.001, 1000.0,
                "lorentz: factor on the class normals at the start; they are drawn with norm 0.58"),
      LC_NUMBER(clip_radius, 0.0, 100.0,
                "zeta: largest tangent norm; 0: the old model's + clip_step, or 1 without an old model"),
      LC_NUMBER(clip_step, 0.0, 10.0, "difference to the old model's clip radius where clip_radius is 0"),
      LC_NUMBER(extra_dimensions, 1, 4096, "numbers that bct+32 and bt2 append to the old model's d"),
  };
}

std::vector<Row> OptimisationRows() {
  return {
      LC_NUMBER(epochs, 1, 100000, "passes over the training set"),
      LC_NUMBER(batch, 2, 65536, "images a step"),
      LC_NUMBER(learning_rate, 1e-8, 100.0, "learning rate before the schedule"),
      LC_NUMBER(momentum, 0.0, 0.9999, "momentum of SGD"),
      LC_BOOL(nesterov, "Nesterov momentum"),
      LC_NUMBER(weight_decay, 0.0, 1.0, "weight decay of the network without a learnt rescale factor"),
      LC_NUMBER(classifier_weight_decay, 0.0, 1.0, "weight decay of the head"),
      LC_WORD(
          schedule, "cosine-step, cosine-epoch, linear-step, step, constant",
          "learning rate: to 0 along a cosine by step or by epoch, or linearly; x 0.2 at 30, 60, 80 %; or constant"),
      LC_NUMBER(warmup_epochs, 0.0, 1000.0, "linear rise of the learning rate from 0"),
      LC_NUMBER(gradient_clip, 0.0, 1e6, "largest global gradient norm; 0: none"),
      LC_WORD(augment, "auto, none, photo, drawing", "random changes of an image; auto: those of the data set"),
      LC_BOOL(channels_last, "memory layout of images and filters"),
      LC_WORD(precision, "float32, bf16, auto",
              "number format of the backbone in training steps; auto: bf16 where the processor has it"),
      LC_WORD(device, "auto, cpu, cuda", "device of the training; auto: CUDA where there is one"),
      LC_NUMBER(seed, 0, 1.8446744073709552e19, "seed of weights, order and augmentation"),
      LC_NUMBER(threads, 0, 1024, "threads of the tensor library; 0: OMP_NUM_THREADS, else every core"),
      LC_NUMBER(loader_threads, 1, 64, "threads that prepare batches"),
      LC_NUMBER(checkpoint_seconds, 0.0, 86400.0, "seconds between checkpoints; 0: a checkpoint each step"),
  };
}

const std::vector<Row>& Rows() {
  static const auto* const kRows = [] {
    auto* rows = new std::vector<Row>(ModelRows());
    for (auto make : {OptimisationRows, internal::MethodRows}) {
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
  if (c.metric == "cosine") allowed = "auto, softmax, arcface, cosface, bce";  // cosine embeddings have no length
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

absl::Status UnknownOption(std::string_view name) { return InvalidField("option", name, NamesOf(Rows())); }

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
  if (metric == "lorentz" && clip_radius > radius_max) {  // sinh(k zeta) and its square must stay exact in float32
    return InvalidField("clip_radius", NumberText(clip_radius),
                        StrCat("0 .. ", NumberText(radius_max), " at curvature ", NumberText(curvature_max),
                               " (sqrt(curvature) * clip_radius is at most ", NumberText(kScaledClipRadiusMax), ")"));
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
  LC_DCHECK(row != nullptr);
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
    if (row == nullptr && IsWord(name, kDeletedOptions) && value == 0) continue;
    if (row == nullptr) return UnknownOption(name);
    LC_RETURN_IF_ERROR(row->set(config, value));
    LC_RETURN_IF_ERROR(CheckRow(*row, config));
  }
  return config;
}

}  // namespace lightcone
