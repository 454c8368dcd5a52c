#include "research/experiment/recipe.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/files.h"
#include "base/status.h"
#include "trainer/methods/method.h"

namespace lightcone {
namespace {

constexpr int64_t kRecipeBytesMax = 1 << 20;
constexpr size_t kSeedsMax = 1000;

absl::Status Apply(const RecipeSettings& settings, TrainConfig* config) {
  for (const RecipeSetting& setting : settings) {
    LC_RETURN_IF_ERROR(Annotate(SetTrainOption(*config, setting.name, setting.value), setting.where));
  }
  return absl::OkStatus();
}

// Enough of a data set for the presets and for Validate, which read sizes and nothing else.
Dataset UsualDataset(const std::string& data) {
  struct Size {
    const char* kind;
    int height, width, channels;
  };
  static constexpr Size kSizes[] = {{"glyphs", 28, 28, 1}, {"idx", 28, 28, 1},        {"tinyimagenet", 64, 64, 3},
                                    {"ms1m", 112, 112, 3}, {"imagenet", 224, 224, 3}, {"cub", 224, 224, 3},
                                    {"cars", 224, 224, 3}, {"sop", 224, 224, 3},      {"market1501", 256, 128, 3}};
  Size size = {"", 32, 32, 3};
  for (const Size& one : kSizes) {
    if (data.starts_with(one.kind)) size = one;
  }
  const size_t at = data.find('@');  // position of the side in KIND@SIDE
  if (at < data.find(':') && at + 1 < data.size()) {
    int side = 0;
    std::from_chars(data.data() + at + 1, data.data() + data.size(), side);
    if (side > 0) size.width = std::max(1, size.width * side / size.height), size.height = side;
  }
  Dataset dataset;
  dataset.class_names.resize(100);
  dataset.train.height = size.height;
  dataset.train.width = size.width;
  dataset.train.channels = size.channels;
  dataset.train.labels.resize(50'000);
  return dataset;
}

}  // namespace

const std::vector<MeasureInfo>& ExperimentMeasures() {
  static const auto* const kMeasures = new std::vector<MeasureInfo>{
      {"self.cmc1", "self CMC@1"}, {"self.cmc5", "self CMC@5"},   {"self.map", "self mAP"},
      {"self.tar", "self TAR"},    {"cross.cmc1", "cross CMC@1"}, {"cross.cmc5", "cross CMC@5"},
      {"cross.map", "cross mAP"},  {"cross.tar", "cross TAR"},    {"p_up.cmc1", "P_up CMC@1"},
      {"p_up.map", "P_up mAP"},    {"p_com.cmc1", "P_com CMC@1"}, {"p_com.map", "P_com mAP"}};
  return *kMeasures;
}

std::optional<size_t> Recipe::RowIndex(std::string_view row) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == row) return i;
  }
  return std::nullopt;
}

const RecipeSpace* Recipe::Space(std::string_view space) const {
  for (const RecipeSpace& one : spaces) {
    if (one.name == space) return &one;
  }
  return nullptr;
}

absl::StatusOr<std::vector<uint64_t>> ParseSeeds(std::string_view text, std::string_view field) {
  const auto refuse = [&] {
    return InvalidField(field, StrCat("'", text, "'"), "1 .. 1000 different whole numbers with commas between them");
  };
  std::vector<uint64_t> seeds;
  std::set<uint64_t> seen;
  std::string_view rest = text;
  while (true) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), seed);
    if (error != std::errc() || !seen.insert(seed).second || seeds.size() == kSeedsMax) return refuse();
    seeds.push_back(seed);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (rest.empty()) return seeds;
    if (rest.front() != ',') return refuse();
    rest.remove_prefix(1);
  }
}

absl::StatusOr<Recipe> OpenRecipe(const std::string& file_or_name) {
  if (file_or_name.find('/') != std::string::npos || file_or_name.ends_with(".toml")) {
    absl::StatusOr<std::string> text = ReadFile(file_or_name, kRecipeBytesMax);
    if (!text.ok()) return Annotate(text.status(), "recipe");
    return ParseRecipe(*text, file_or_name);
  }
  std::string names;
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    if (file_or_name == shipped.name) return ParseRecipe(shipped.text, file_or_name);
    names += StrCat(names.empty() ? "" : ", ", shipped.name);
  }
  return NotFound(StrCat("no recipe '", file_or_name, "'; there are: ", names,
                         "; or a file: its name needs a '/' or the ending .toml"));
}

absl::StatusOr<TrainConfig> RecipeConfig(const Recipe& recipe, const Dataset& whole, const RecipeSpace& space, int step,
                                         const RecipeRow* row, uint64_t seed) {
  LC_ASSIGN_OR_RETURN(TrainConfig config, RecipeFor(whole, recipe.preset));
  if (row != nullptr) {
    const std::string metric = config.metric;
    LC_RETURN_IF_ERROR(ChooseMethod(row->method, config));
    config.metric = metric;  // the space sets the metric, also of its old model
  }
  config.recipe = recipe.name;
  config.seed = seed;
  LC_RETURN_IF_ERROR(Apply(recipe.train, &config));
  LC_RETURN_IF_ERROR(Apply(space.set, &config));
  if (step > 0) LC_RETURN_IF_ERROR(Apply(recipe.fresh, &config));
  if (const auto own = recipe.steps.find(step); own != recipe.steps.end()) {
    LC_RETURN_IF_ERROR(Apply(own->second, &config));
  }
  std::string what = StrCat("generation ", step, " of space '", space.name, "'");
  if (row != nullptr) {
    LC_RETURN_IF_ERROR(Apply(row->set, &config));
    what = StrCat("row '", row->name, "', generation ", step);
  }
  TrainConfig checked = config;  // the old model's folder is unknown before its training
  if (FindTrainingMethod(config.method)->needs_old_model) checked.old_model = "old";
  LC_RETURN_IF_ERROR(Annotate(checked.Validate(), what));  // RecipeFor set the input sizes by the data set
  return config;
}

namespace {

// A row whose newest model's queries search its oldest one's gallery as they are, in one Lorentz space but for the
// clip.
absl::Status CheckUncertainty(const Recipe& recipe, int steps, const Dataset& usual) {
  const std::optional<size_t> at = recipe.RowIndex(recipe.uncertainty);
  if (!at.has_value()) {
    std::string names;
    for (const RecipeRow& row : recipe.rows) names += StrCat(names.empty() ? "" : ", ", row.name);
    return InvalidField("uncertainty", StrCat("'", recipe.uncertainty, "'"), names);
  }
  if (steps < 2) {
    return InvalidField("uncertainty", "set", StrCat("nothing: scenario '", recipe.scenario, "' has no older model"));
  }
  const RecipeRow& row = recipe.rows[*at];
  const RecipeSpace& space = *recipe.Space(row.space);
  LC_ASSIGN_OR_RETURN(const TrainConfig old, RecipeConfig(recipe, usual, space, 0, nullptr, 1));
  LC_ASSIGN_OR_RETURN(const TrainConfig newest, RecipeConfig(recipe, usual, space, steps - 1, &row, 1));
  const auto refuse = [&](const std::string& what, const std::string& allowed) {
    return InvalidField("uncertainty", StrCat("'", row.name, "', ", what), StrCat("a row ", allowed));
  };
  if (row.adapter.has_value()) return refuse("with an adapter", "without one");
  if (!FindTrainingMethod(row.method)->needs_old_model) {
    return refuse(StrCat("of method ", row.method), "whose method asks an old model");
  }
  if (newest.metric != "lorentz") return refuse(StrCat("of metric ", newest.metric), "of metric lorentz");
  if (newest.learn_curvature || old.learn_curvature || newest.curvature != old.curvature) {
    return refuse("whose models have curvatures of their own", "with one fixed curvature");
  }
  const int64_t before = LayoutOf(old).embedding, after = LayoutOf(newest).embedding;
  if (before != after) return refuse(StrCat("of ", after, " numbers"), StrCat("of ", before, ", as its old model"));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRecipe(const Recipe& recipe, int steps) {
  if (steps == 1 && !recipe.fresh.empty()) {
    return Annotate(InvalidField("new", "set", StrCat("nothing: scenario '", recipe.scenario, "' has one generation")),
                    recipe.fresh.front().where);
  }
  for (const RecipeRow& row : recipe.rows) {
    if (steps == 1 && row.adapter.has_value()) {
      return InvalidField(StrCat("row.", row.name, ".adapter"), "set",
                          StrCat("nothing: scenario '", recipe.scenario, "' has no older model"));
    }
  }
  const Dataset usual = UsualDataset(recipe.data);
  for (const auto& [step, settings] : recipe.steps) {
    if (step >= steps) {
      return Annotate(InvalidField(StrCat("step.", step), "set",
                                   StrCat("generations 0 .. ", steps - 1, " of scenario '", recipe.scenario, "'")),
                      settings.front().where);
    }
  }
  for (int step = 0; step < steps; ++step) {
    for (const RecipeSpace& space : recipe.spaces) {
      LC_RETURN_IF_ERROR(RecipeConfig(recipe, usual, space, step, nullptr, 1).status());
    }
    if (step == 0 && steps > 1) continue;  // rows share the old model of their space
    for (const RecipeRow& row : recipe.rows) {
      LC_RETURN_IF_ERROR(RecipeConfig(recipe, usual, *recipe.Space(row.space), step, &row, 1).status());
    }
  }
  return recipe.uncertainty.empty() ? absl::OkStatus() : CheckUncertainty(recipe, steps, usual);
}

}  // namespace lightcone
