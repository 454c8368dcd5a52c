#include "server/engine/training/training_recipe.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/number_text.h"
#include "base/status.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;

constexpr int64_t kRecipeBytesMax = 64 << 10;
constexpr size_t kTextBytesMax = 4'096;
constexpr int kRecipeClassesMax = 10'000'000;
constexpr std::string_view kFields = "method, recipe, name, data, seed, classes, fraction, options";

absl::Status Bad(std::string_view field, const Json& value, std::string_view allowed) {
  return InvalidField(StrCat("recipe_json.", field), value.dump(-1, ' ', false, Json::error_handler_t::replace),
                      allowed);
}

// Of a command line's word: what is none ends it.
bool IsWord(const std::string& text, size_t bytes_max) {
  return text.size() <= bytes_max && IsUtf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_iscntrl(static_cast<unsigned char>(c));
         });
}

absl::Status ReadText(std::string_view field, const Json& value, size_t bytes_max, std::string* out) {
  if (!value.is_string() || !IsWord(value.get_ref<const std::string&>(), bytes_max)) {
    return Bad(field, value, StrCat("a text of at most ", bytes_max, " bytes without control characters"));
  }
  *out = value.get<std::string>();
  return absl::OkStatus();
}

// As the command line takes it.
absl::StatusOr<std::string> OptionText(const std::string& field, const Json& value) {
  std::string text;
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  if (value.is_number_float()) return NumberText(value.get<double>());
  if (value.is_number()) return value.dump();
  if (!value.is_string()) return Bad(field, value, "a text, a number or a boolean");
  LC_RETURN_IF_ERROR(ReadText(field, value, kTextBytesMax, &text));
  return text;
}

absl::Status ReadOptions(const Json& value, TrainingRecipe* recipe) {
  if (!value.is_object()) return Bad("options", value, "an object, as in {\"epochs\": 10}");
  for (const auto& [name, setting] : value.items()) {
    const std::string field = StrCat("options.", name);
    const bool right = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
    });
    if (!right) return Bad("options", name, "names that `lightcone train --list` has");
    LC_ASSIGN_OR_RETURN(std::string text, OptionText(field, setting));
    recipe->options.emplace_back(name, std::move(text));
  }
  return absl::OkStatus();
}

absl::Status ReadOne(const std::string& name, const Json& value, TrainingRecipe* recipe) {
  if (name == "method") return ReadText(name, value, 64, &recipe->method);
  if (name == "recipe") {
    LC_RETURN_IF_ERROR(ReadText(name, value, 64, &recipe->recipe));
    return recipe->recipe.empty() ? Bad(name, value, "a recipe that `lightcone train --list` names") : absl::OkStatus();
  }
  if (name == "name") return ReadText(name, value, 128, &recipe->name);
  if (name == "data") return ReadText(name, value, kTextBytesMax, &recipe->data);
  if (name == "options") return ReadOptions(value, recipe);
  if (name == "seed") {
    if (!value.is_number_unsigned()) return Bad(name, value, "0 .. 2^64 - 1");
    recipe->seed = value.get<uint64_t>();
    return absl::OkStatus();
  }
  if (name == "classes") {
    const bool right =
        value.is_number_unsigned() && value.get<uint64_t>() <= kRecipeClassesMax && value.get<uint64_t>() != 1;
    if (!right) return Bad(name, value, StrCat("0 (all), 2 .. ", kRecipeClassesMax));
    recipe->classes = value.get<int>();
    return absl::OkStatus();
  }
  if (name == "fraction") {
    const double share = value.is_number() ? value.get<double>() : 0;
    if (!(share > 0 && share <= 1)) return Bad(name, value, "above 0 .. 1");
    recipe->fraction = share;
    return absl::OkStatus();
  }
  return InvalidField("recipe_json", StrCat("with '", name, "'"), kFields);
}

}  // namespace

absl::StatusOr<TrainingRecipe> ParseTrainingRecipe(const std::string& text) {
  if (text.empty()) return InvalidField("recipe_json", "empty", "a JSON object with \"method\"");
  LC_RETURN_IF_ERROR(CheckPayload(text, kRecipeBytesMax, "recipe_json"));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  TrainingRecipe recipe;
  for (const auto& [name, value] : json.items()) LC_RETURN_IF_ERROR(ReadOne(name, value, &recipe));
  if (recipe.method.empty()) {
    return InvalidField("recipe_json.method", "absent", "a method that `lightcone train --list` names");
  }
  return recipe;
}

absl::Status CheckTrainingSpace(const TrainingRecipe& recipe, Metric metric, double curvature) {
  if (metric == Metric::kInnerProduct) {
    return FailedPrecondition(
        "the collection measures by inner_product; models are trained for lorentz, cosine, euclidean");
  }
  for (const auto& [name, value] : recipe.options) {
    const std::string field = StrCat("recipe_json.options.", name);
    if (name == "metric" && value != MetricName(metric)) {
      return InvalidField(field, value, StrCat(MetricName(metric), ", of the collection"));
    }
    double number = 0;
    if (name == "curvature" && metric == Metric::kLorentz &&
        (!absl::SimpleAtod(value, &number) || number != curvature)) {
      return InvalidField(field, value, StrCat(NumberText(curvature), ", of the collection"));
    }
    if (name == "learn_curvature" && value != "false") {
      return InvalidField(field, value, StrCat("false: the collection's curvature is ", NumberText(curvature)));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> TrainingWords(const std::string& program, const TrainingRecipe& recipe,
                                       const TrainingPlaces& places, const TrainingLock& lock, Metric metric,
                                       double curvature, int threads) {
  // Values behind '=', none of them empty: none can be taken for a flag.
  std::vector<std::string> words = {
      program,
      "train",
      StrCat("--method=", recipe.method),
      StrCat("--recipe=", recipe.recipe),
      StrCat("--name=", recipe.name),
      StrCat("--data=", recipe.data.empty() ? StrCat("folder:", places.data) : recipe.data),
      StrCat("--seed=", recipe.seed),
      StrCat("--fraction=", NumberText(recipe.fraction)),
      StrCat("--out=", places.model),
      StrCat("--progress=", places.progress)};
  words.push_back(StrCat("--sandbox=", LockModeName(lock.mode)));
  words.push_back(StrCat("--sandbox-write=", places.home));
  for (const std::string& folder : lock.read) words.push_back(StrCat("--sandbox-read=", folder));
  words.push_back(StrCat("--set=metric=", MetricName(metric)));
  if (metric == Metric::kLorentz) words.push_back(StrCat("--set=curvature=", NumberText(curvature)));
  if (recipe.classes > 0) words.push_back(StrCat("--classes=", recipe.classes));
  if (!places.old.empty()) words.push_back(StrCat("--old=", places.old));
  bool says_threads = false;
  for (const auto& [name, value] : recipe.options) {
    words.push_back(StrCat("--set=", name, "=", value));
    says_threads = says_threads || name == "threads";
  }
  if (!says_threads) words.push_back(StrCat("--set=threads=", threads));
  return words;
}

}  // namespace lightcone::server
