// The recipe of an experiment: a TOML file that says which models are trained on what, and what the paper found
// (docs/reference/recipes.md lists the keys). No torch here. Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// An option of trainer/config.h as it stands in the recipe.
struct RecipeSetting {
  std::string name, value;
  std::string where;  // "FILE:LINE" for messages
};
using RecipeSettings = std::vector<RecipeSetting>;

// The measures of a table, by the names that paper figures have in recipes and values in table.json.
struct MeasureInfo {
  const char *key, *title;
};
// self.cmc1 self.cmc5 self.map self.tar, cross. likewise, p_up.cmc1 p_up.map p_com.cmc1 p_com.map, in this order.
const std::vector<MeasureInfo>& ExperimentMeasures();
using PaperFigures = std::map<std::string, double>;  // figures by MeasureInfo::key

// An adapter that is fitted to a row's finished models; cross retrieval goes through it.
struct RecipeAdapter {
  std::string direction = "item";    // name by AdapterDirectionName
  std::string map = "residual-mlp";  // name by AdapterKindName
  std::string loss = "auto";         // text for ParseAdaptLoss; auto: kAutoLossLabelled
  int64_t pairs = 0;                 // number of random images of the newer model's training set; 0: all
  int64_t views = 0;                 // number of views of an image, the plain one included; 0: ViewsFor
  int64_t width = 0, rank = 32, steps = 1500;
  RecipeSettings given;  // keys that the recipe names
};

// Rows of one space share their options, their old models and the models that are trained alone.
struct RecipeSpace {
  std::string name;
  RecipeSettings set;
  PaperFigures paper_old, paper_independent;
};

struct RecipeRow {
  std::string name, title;  // unique name of the key, and title
  std::string method;       // name of TrainingMethods()
  std::string space;        // name of a RecipeSpace
  std::string reference;    // space of the models that P_com and P_up refer to
  RecipeSettings set;       // options of this row's compatible models
  std::optional<RecipeAdapter> adapter;
  PaperFigures paper;
};

struct Recipe {
  std::string name;                     // name of the shipped recipe, or of the file without folder and ending
  std::string text;                     // text of the file
  std::string title, source, settings;  // title, paper, and which settings are the paper's
  std::string data;                     // name for OpenDataset, or a kind whose folder the user names
  std::string data_help;                // help about the data set
  std::string preset = "quick";         // name for RecipeFor
  std::vector<uint64_t> seeds = {1};
  double validation = 0;    // share of the training images that replaces the test set; 0: the test set
  double far = 0;           // false accept rate for TAR over all pairs of the test set; 0: no TAR
  std::string uncertainty;  // name of the row of the uncertainty study; empty: no study
  std::string scenario;     // name of research/experiment/scenario.h
  RecipeSettings scenario_options;
  RecipeSettings train;                 // options of all models
  std::map<int, RecipeSettings> steps;  // options by generation; 0 is the old model
  RecipeSettings fresh;                 // options of generations 1 and up ([new])
  std::vector<RecipeSpace> spaces;      // spaces in the file's order, at least one
  std::vector<RecipeRow> rows;          // rows in the file's order, at least one

  const RecipeSpace* Space(std::string_view space) const;
  // Position of the row of that name; empty: no such row.
  std::optional<size_t> RowIndex(std::string_view row) const;
};

// INVALID_ARGUMENT "FILE:LINE: field ... allowed: ..." for a key, method, scenario, option, map or measure that is not
// known or not allowed, a value out of range, and a row that names no space; lists what there is. `file` is for
// messages and names the recipe.
absl::StatusOr<Recipe> ParseRecipe(std::string_view text, const std::string& file);

// A file (a path with '/' or ending in ".toml"), or the name of a shipped recipe. NOT_FOUND lists the shipped ones.
absl::StatusOr<Recipe> OpenRecipe(const std::string& file_or_name);

// The recipes that this program contains (research/recipes/), by name, in order of the names.
struct ShippedRecipe {
  const char *name, *text;
};
const std::vector<ShippedRecipe>& ShippedRecipes();

// "1,2,3": 1 to 1000 different numbers. INVALID_ARGUMENT names `field`.
absl::StatusOr<std::vector<uint64_t>> ParseSeeds(std::string_view text, std::string_view field);

// The options of one model: preset, then [train], the space's, [old] or [new], [step.N], and the row's (null: trained
// alone). `whole`: the whole data set, by which the preset is sized. Errors of Validate, with the step before them.
absl::StatusOr<TrainConfig> RecipeConfig(const Recipe& recipe, const Dataset& whole, const RecipeSpace& space, int step,
                                         const RecipeRow* row, uint64_t seed);

// Every option of every model on a data set of the usual size, so that a recipe that cannot work is told at once.
absl::Status CheckRecipe(const Recipe& recipe, int steps);

}  // namespace lightcone
