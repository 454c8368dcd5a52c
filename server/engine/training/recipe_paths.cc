#include "server/engine/training/recipe_paths.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/named_paths.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kOption = "train.data_folders";
constexpr std::string_view kPathOptions[] = {"encoder.backbone_file", "old_model", "bt2.base_model"};

// Field and path of each path that a recipe names.
std::vector<std::pair<std::string, std::string>> PathsOf(const TrainingRecipe& recipe) {
  std::vector<std::pair<std::string, std::string>> paths;
  const size_t colon = recipe.data.find(':');  // KIND:PATH; the program knows which kinds there are
  if (colon != std::string::npos) paths.emplace_back("recipe_json.data", recipe.data.substr(colon + 1));
  for (const auto& [name, value] : recipe.options) {
    const bool is_path = std::find(std::begin(kPathOptions), std::end(kPathOptions), name) != std::end(kPathOptions);
    if (is_path && !value.empty()) paths.emplace_back(StrCat("recipe_json.options.", name), value);
  }
  return paths;
}

}  // namespace

absl::Status CheckRecipePaths(const TrainingRecipe& recipe, const std::vector<std::string>& folders) {
  for (const auto& [field, path] : PathsOf(recipe)) LC_RETURN_IF_ERROR(CheckNamedPath(field, path, folders, kOption));
  return absl::OkStatus();
}

bool NamesPaths(const TrainingRecipe& recipe) { return !PathsOf(recipe).empty(); }

}  // namespace lightcone::server
