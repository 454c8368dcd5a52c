// Paths on the server's disk that a training's recipe names (base/named_paths.h). Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/training/training_recipe.h"

namespace lightcone::server {

// CheckNamedPath for each of them: the recipe's data, and options that are files or folders.
absl::Status CheckRecipePaths(const TrainingRecipe& recipe, const std::vector<std::string>& folders);
// Whether a recipe names any.
bool NamesPaths(const TrainingRecipe& recipe);

}  // namespace lightcone::server
