#include "trainer/config.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "geometry/metric.h"
#include "models/json_fields.h"
#include "nlohmann/json.hpp"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// One option: how to read, check, write and print it.
struct Row {
  std::string name, help, allowed;
  std::function<ordered_json(const TrainConfig&)> get;
  std::function<absl::Status(TrainConfig&, const json&)> set;  // type check only
  std::function<bool(const TrainConfig&)> in_range;
};

// The fewest digits that read back as the same number.
std::string ShowNumber(double value) {
  char buffer[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer;
}

std::string ShowJson(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return ShowNumber(value.get<double>());
  return value.dump();
}

template <typename T>
bool HasType(const json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else if (value.is_number_unsigned()) {
    return std::in_range<T>(value.get<uint64_t>());
  } else {
    return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  }
}

template <typename Field>
Row MakeRow(std::string name, std::string help, std::string allowed, Field field,
            std::function<bool(const TrainConfig&)> ok) {
  using T = std::remove_reference_t<decltype(field(std::declval<TrainConfig&>()))>;
  Row row{std::move(name), std::move(help), std::move(allowed), {}, {}, std::move(ok)};
  row.get = [field](const TrainConfig& c) { return ordered_json(field(const_cast<TrainConfig&>(c))); };
  row.set = [field, name = row.name, allowed = row.allowed](TrainConfig& c, const json& value) {
    if (!HasType<T>(value)) return InvalidField(name, ShowJson(ordered_json(value)), allowed);
    field(c) = value.get<T>();
    return absl::OkStatus();
  };
  return row;
}

// Every kind of option in one line each; `path` is the member of TrainConfig.
#define LC_FIELD(path) \
  [](TrainConfig & c) -> auto& { return c.path; }
#define LC_NUMBER(name, path, min, max, help)                                                                      \
  MakeRow(name, help, StrCat(ShowNumber(min), " .. ", ShowNumber(max)), LC_FIELD(path), [](const TrainConfig& c) { \
    return static_cast<double>(c.path) >= (min) && static_cast<double>(c.path) <= (max);                           \
  })
#define LC_BOOL(name, path, help) \
  MakeRow(name, help, "true or false", LC_FIELD(path), [](const TrainConfig&) { return true; })
#define LC_WORD(name, path, words, help) \
  MakeRow(name, help, words, LC_FIELD(path), [](const TrainConfig& c) { return IsWord(c.path, words); })
#define LC_TEXT(name, path, min, max, help)                                                               \
  MakeRow(name, help, StrCat(min, " .. ", max, " characters"), LC_FIELD(path), [](const TrainConfig& c) { \
    return std::cmp_greater_equal(c.path.size(), min) && std::cmp_less_equal(c.path.size(), max);         \
  })

// Whether `value` is one of "a, b, c".
bool IsWord(std::string_view value, std::string_view words) {
  while (!words.empty()) {
    const size_t comma = words.find(", ");
    if (words.substr(0, comma) == value) return true;
    words = comma == std::string_view::npos ? std::string_view() : words.substr(comma + 2);
  }
  return false;
}

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
  rows.push_back(LC_NUMBER("encoder.dimension", encoder.dimension, 2, 4096, "d, numbers in an embedding"));
  rows.push_back(LC_WORD("encoder.rescale", encoder.rescale, "none, fixed, learnable",
                         "factor on the embedding before the clip: 1, d^-1/2, or learnt from d^-1/2 on"));
  rows.push_back(LC_BOOL("encoder.head_bias", encoder.head_bias, "bias in the embedding layer"));
  rows.push_back(LC_BOOL("encoder.head_batch_norm", encoder.head_batch_norm, "batch norm after the embedding layer"));
  rows.push_back(LC_WORD("metric", metric, "lorentz, cosine, euclidean",
                         "space of the embeddings; lorentz trains Lorentz MLR, the others a softmax"));
  rows.push_back(LC_NUMBER("curvature", curvature, 0.001, 1000.0, "K: the hyperboloid has curvature -K"));
  rows.push_back(LC_NUMBER("classifier_scale", classifier_scale, 0.001, 1000.0,
                           "lorentz: factor on the class normals at the start; they are drawn with norm 0.58"));
  rows.push_back(LC_NUMBER("clip_radius", clip_radius, 0.0, 100.0,
                           "zeta, largest tangent norm; 0: the old model's + 0.2, or 1 without an old model"));
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
  rows.push_back(LC_WORD("schedule", schedule, "cosine-step, cosine-epoch, step, constant",
                         "learning rate: cosine to 0 by step or by epoch, x 0.2 at 30, 60 and 80 %, or constant"));
  rows.push_back(LC_NUMBER("warmup_epochs", warmup_epochs, 0.0, 1000.0, "linear rise of the learning rate from 0"));
  rows.push_back(LC_NUMBER("gradient_clip", gradient_clip, 0.0, 1e6, "largest global gradient norm; 0: none"));
  rows.push_back(
      LC_WORD("augment", augment, "auto, none, photo, drawing", "random changes; auto: what the data set says"));
  rows.push_back(LC_BOOL("channels_last", channels_last, "memory layout of images and filters"));
  rows.push_back(LC_NUMBER("seed", seed, 0, 1.8446744073709552e19, "of weights, order and augmentation"));
  rows.push_back(LC_NUMBER("threads", threads, 0, 1024, "of the tensor library; 0: every core"));
  rows.push_back(LC_NUMBER("loader_threads", loader_threads, 1, 256, "threads that prepare batches"));
  rows.push_back(
      LC_NUMBER("checkpoint_seconds", checkpoint_seconds, 0.0, 86400.0, "between checkpoints; 0: each step"));
  return rows;
}

std::vector<Row> HbctRows() {
  std::vector<Row> rows;
  rows.push_back(LC_TEXT("old_model", old_model, 0, 4096, "folder of the model to be compatible with"));
  rows.push_back(LC_NUMBER("hbct.lambda", hbct.lambda, 0.0, 1000.0, "weight of entailment + contrast"));
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
  rows.push_back(LC_WORD("hbct.normals", hbct.normals, "drawn, old-means",
                         "directions of the class normals at the start: random, or of the class's mean old embedding"));
  rows.push_back(LC_BOOL("hbct.mask_same_class", hbct.mask_same_class, "same-class old embeddings are no negatives"));
  rows.push_back(LC_BOOL("hbct.cached_old_features", hbct.cached_old_features,
                         "old embeddings once an image, not on each augmented batch"));
  return rows;
}

#undef LC_FIELD
#undef LC_NUMBER
#undef LC_BOOL
#undef LC_WORD
#undef LC_TEXT

const std::vector<Row>& Rows() {
  static const auto* const kRows = [] {
    auto* rows = new std::vector<Row>(ModelRows());
    for (auto make : {OptimisationRows, HbctRows}) {
      for (Row& row : make()) rows->push_back(std::move(row));
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

absl::Status UnknownOption(std::string_view name) {
  std::string names;
  for (const Row& row : Rows()) names += (names.empty() ? "" : ", ") + row.name;
  return InvalidField("option", name, names);
}

}  // namespace

absl::Status TrainConfig::Validate() const {
  for (const Row& row : Rows()) LC_RETURN_IF_ERROR(CheckRow(row, *this));
  LC_RETURN_IF_ERROR(encoder.Validate());
  const bool needs_old = FindTrainingMethod(method)->needs_old_model;
  if (needs_old && old_model.empty()) {
    return InvalidField("old_model", "", StrCat("the folder of a trained model (method '", method, "' needs one)"));
  }
  if (method == "hbct" && metric != "lorentz")
    return InvalidField("metric", metric, "lorentz (method 'hbct' needs it)");
  const double radius_max = kScaledClipRadiusMax / std::sqrt(curvature);
  if (metric == "lorentz" && clip_radius > radius_max) {  // sinh(k zeta) and its square must stay exact in float32
    return InvalidField("clip_radius", ShowNumber(clip_radius),
                        StrCat("0 .. ", ShowNumber(radius_max), " at curvature ", ShowNumber(curvature),
                               " (sqrt(curvature) * clip_radius is at most ", ShowNumber(kScaledClipRadiusMax), ")"));
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

std::string ToJson(const TrainConfig& config) {
  ordered_json out;
  for (const Row& row : Rows()) out[row.name] = row.get(config);
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
