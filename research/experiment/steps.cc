#include "research/experiment/steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/status.h"
#include "research/experiment/scenario.h"

namespace lightcone {
namespace {

constexpr char kOptions[] = "old_share, class_order, chain_shares, chain_change";

absl::StatusOr<double> ParseNumber(std::string_view text, const std::string& field) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return InvalidField(field, StrCat("'", text, "'"), "a number");
}

absl::StatusOr<std::vector<double>> NumbersOf(std::string_view text, const std::string& field) {
  std::vector<double> numbers;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    LC_ASSIGN_OR_RETURN(const double number, ParseNumber(part, field));
    numbers.push_back(number);
    if (comma == text.size()) return numbers;
    text.remove_prefix(comma + 1);
  }
}

absl::Status Set(const RecipeSetting& setting, ScenarioOptions* options) {
  const std::string field = "scenario." + setting.name;
  if (setting.name == "old_share") {
    LC_ASSIGN_OR_RETURN(options->old_share, ParseNumber(setting.value, field));
  } else if (setting.name == "class_order") {
    options->class_order = setting.value;
  } else if (setting.name == "chain_shares") {
    LC_ASSIGN_OR_RETURN(options->chain_shares, NumbersOf(setting.value, field));
  } else if (setting.name == "chain_change") {
    LC_ASSIGN_OR_RETURN(const double number, ParseNumber(setting.value, field));
    if (!(number >= 0 && number <= 1000 && number == std::floor(number))) {
      return InvalidField(field, setting.value, "0 .. 1000, whole");
    }
    options->chain_change = static_cast<int64_t>(number);
  } else {
    return InvalidField("key", StrCat("'", field, "'"), StrCat("scenario.name, ", kOptions));
  }
  return absl::OkStatus();
}

// What the recipe's scenario reads. INVALID_ARGUMENT for an unknown scenario.
absl::StatusOr<std::vector<std::string>> OptionNames(const Recipe& recipe) {
  if (recipe.scenario == kAloneScenario) return std::vector<std::string>();
  std::string known;
  for (const ScenarioInfo& info : ScenarioKinds()) {
    if (info.name == recipe.scenario) return info.options;
    known += info.name + ", ";
  }
  return InvalidField("scenario.name", StrCat("'", recipe.scenario, "'"), known + kAloneScenario);
}

absl::Status CheckTaken(const Recipe& recipe, const RecipeSetting& setting, const std::vector<std::string>& taken) {
  std::string names;
  for (const std::string& name : taken) {
    if (name == setting.name) return absl::OkStatus();
    names += StrCat(", ", name);
  }
  return InvalidField("key", StrCat("'scenario.", setting.name, "'"),
                      StrCat("scenario.name", names, ": scenario '", recipe.scenario, "' reads no other"));
}

// Ranges depend on each other, so that they are checked when all are set, whatever their order. The error has the line
// of the option that it names, or the first one's where that has its default.
absl::Status CheckRanges(const Recipe& recipe, const ScenarioOptions& options) {
  const absl::Status status = options.Validate();
  if (status.ok() || recipe.scenario_options.empty()) return status;
  const std::string field = PartsOf(status).field;
  std::string where = recipe.scenario_options.front().where;
  for (const RecipeSetting& setting : recipe.scenario_options) {
    if (field.starts_with(setting.name)) where = setting.where;  // fields may have an index, as chain_shares[1]
  }
  return Annotate(Annotate(status, "scenario"), where);
}

absl::StatusOr<ScenarioOptions> OptionsOf(const Recipe& recipe) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> taken, OptionNames(recipe));
  ScenarioOptions options;
  for (const RecipeSetting& setting : recipe.scenario_options) {
    LC_RETURN_IF_ERROR(Annotate(Set(setting, &options), setting.where));
    LC_RETURN_IF_ERROR(Annotate(CheckTaken(recipe, setting, taken), setting.where));
  }
  LC_RETURN_IF_ERROR(CheckRanges(recipe, options));
  return options;
}

}  // namespace

absl::StatusOr<int> CountSteps(const Recipe& recipe) {
  LC_ASSIGN_OR_RETURN(const ScenarioOptions options, OptionsOf(recipe));
  if (recipe.scenario == kAloneScenario) return 1;
  return recipe.scenario == "sequential" ? static_cast<int>(options.chain_shares.size()) : 2;
}

absl::StatusOr<std::vector<GenerationData>> StepDatasets(const Recipe& recipe, const Dataset& whole, uint64_t seed) {
  std::vector<GenerationData> steps;
  if (recipe.scenario == kAloneScenario) {
    steps.push_back({whole, false});
    steps[0].dataset.test = {};
    return steps;
  }
  LC_ASSIGN_OR_RETURN(ScenarioOptions options, OptionsOf(recipe));
  options.seed = seed;
  LC_ASSIGN_OR_RETURN(const Scenario scenario, MakeScenario(recipe.scenario, whole, options));
  for (const ScenarioStep& step : scenario.steps) {
    steps.push_back({StepDataset(whole, step), step.architecture_changes});
    steps.back().dataset.test = {};
  }
  return steps;
}

}  // namespace lightcone
