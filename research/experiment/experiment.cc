#include "research/experiment/experiment.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "research/experiment/cache.h"
#include "research/experiment/measure.h"
#include "research/experiment/pair_study.h"
#include "research/experiment/plan.h"
#include "research/experiment/rows.h"
#include "research/experiment/setup.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

// All that is ever written into the experiment's folder beside experiment.json.
constexpr std::array<const char*, 10> kResultFiles = {
    "table.md",  "table.json",      "table.tex",     "cost.md",        "cost.json",
    "p_com.svg", "uncertainty.svg", "confusion.svg", "uncertainty.md", "uncertainty.json"};

class Runner {
 public:
  Runner(ExperimentSetup setup, const ExperimentHooks& hooks)
      : setup_(std::move(setup)), hooks_(hooks), cache_(setup_.models()) {}

  absl::StatusOr<ExperimentOutcome> Run() {
    LC_ASSIGN_OR_RETURN(const std::unique_ptr<ExperimentLock> lock, ExperimentLock::Take(setup_.out));
    for (const std::string& note : setup_.notes) Say(note);
    LC_ASSIGN_OR_RETURN(const int steps, CountSteps(setup_.recipe));
    outcome_.folder = setup_.folder();
    const Recipe& recipe = setup_.recipe;
    ExperimentResult& result = outcome_.result;
    result.name = recipe.name;
    result.title = recipe.title;
    result.source = recipe.source;
    result.settings = recipe.settings;
    result.data = setup_.data;
    result.scenario = recipe.scenario;
    result.seeds = setup_.seeds;
    result.steps = steps;
    result.validation = recipe.validation;
    result.far = recipe.far;
    result.studied_row = recipe.uncertainty;
    result.rows = EmptyRows(recipe, steps);
    for (const uint64_t seed : setup_.seeds) LC_RETURN_IF_ERROR(RunSeed(seed));
    LC_RETURN_IF_ERROR(Write());
    return std::move(outcome_);
  }

 private:
  void Say(const std::string& line) const {
    if (hooks_.say) hooks_.say(line);
  }

  std::string JsonPath() const { return setup_.folder() + "/experiment.json"; }

  // What an experiment is, whatever programs it was run by and in whatever order it was written.
  static nlohmann::json SetupOf(nlohmann::json json) {
    for (const char* other : {"models", "lightcone", "compiler", "libtorch"}) json.erase(other);
    return json;
  }

  // Says what was begun here, for --resume. What a finished experiment of the same setup wrote stays; the results of
  // another one go first, so that no table stands beside a configuration that is not its own.
  absl::Status Begin() {
    LC_RETURN_IF_ERROR(MakeFolders(setup_.folder()));
    ordered_json begun = SetupJson(setup_);
    const absl::StatusOr<std::string> there = ReadFile(JsonPath());
    if (there.ok()) {
      const ordered_json before = ordered_json::parse(*there, nullptr, /*allow_exceptions=*/false);
      if (before.is_object() && SetupOf(before) == SetupOf(begun)) {
        if (before.contains("models")) begun["models"] = before["models"];
        return before == begun ? absl::OkStatus() : WriteJson(begun);
      }
    }
    for (const char* name : kResultFiles) LC_RETURN_IF_ERROR(Remove(name));
    return WriteJson(begun);
  }

  absl::Status Remove(const std::string& name) const {
    std::error_code error;
    std::filesystem::remove(setup_.folder() + "/" + name, error);
    if (error) return ErrnoStatus(error.value(), "remove", setup_.folder() + "/" + name);
    return absl::OkStatus();
  }

  absl::Status WriteJson(const ordered_json& json) const { return WriteFileAtomically(JsonPath(), DumpJson(json)); }

  absl::Status RunSeed(uint64_t seed) {
    LC_ASSIGN_OR_RETURN(const Dataset whole, OpenWhole(setup_, seed));
    const std::optional<size_t> studied = setup_.recipe.RowIndex(setup_.recipe.uncertainty);
    if (studied.has_value()) LC_RETURN_IF_ERROR(CheckStudied(whole));
    if (setup_.recipe.far > 0 && whole.protocol.has_value()) {
      return InvalidField(
          "far", NumberText(setup_.recipe.far),
          "0: the data set has queries and a gallery of its own, whose pairs are not all pairs of images");
    }
    LC_RETURN_IF_ERROR(Annotate(CheckQueries(setup_.recipe, whole), StrCat("data, seed ", seed)));
    outcome_.result.queries.push_back(CountQueries(whole));
    LC_ASSIGN_OR_RETURN(const ExperimentPlan plan, MakePlan(setup_.recipe, whole, seed));
    // From here on it is this experiment: what is refused before leaves the folder as it was.
    if (seed == setup_.seeds.front()) LC_RETURN_IF_ERROR(Begin());
    LC_ASSIGN_OR_RETURN(const std::vector<ModelCost> costs, TrainAll(plan));
    Say(StrCat("seed ", seed, ": measuring"));
    Measurer measurer(setup_.out, plan, whole, cache_, setup_.recipe.far, hooks_.stop);
    LC_RETURN_IF_ERROR(MeasureRows(setup_.recipe, plan, whole, costs, measurer, hooks_.stop, &outcome_.result));
    if (!studied.has_value()) return absl::OkStatus();
    Say(StrCat("seed ", seed, ": studying uncertainties"));
    absl::StatusOr<UncertaintyStudy> study = StudyRow(setup_.out, plan, whole, cache_, measurer, *studied, hooks_.stop);
    LC_RETURN_IF_ERROR(
        Annotate(study.status(), StrCat("uncertainty of row '", setup_.recipe.uncertainty, "', seed ", seed)));
    outcome_.result.studies.push_back(*std::move(study));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ModelCost>> TrainAll(const ExperimentPlan& plan) {
    std::vector<ModelCost> costs;
    for (const PlannedModel& model : plan.models) {
      LC_ASSIGN_OR_RETURN(const bool there, cache_.Has(model));
      ++(there ? outcome_.cached : outcome_.trained);
      Say(StrCat("seed ", plan.seed, ", model ", costs.size() + 1, " of ", plan.models.size(), ": ", model.role, " ",
                 model.id, there ? " (there)" : ""));
      LC_ASSIGN_OR_RETURN(const ModelCost cost, cache_.Get(plan, model, hooks_.progress, hooks_.stop));
      costs.push_back(cost);
      ordered_json key = ordered_json::parse(model.key, nullptr, /*allow_exceptions=*/false);
      models_.push_back({{"id", model.id}, {"role", model.role}, {"seed", plan.seed}, {"key", std::move(key)}});
    }
    return costs;
  }

  absl::Status Write() const {
    const ExperimentResult& result = outcome_.result;
    std::vector<std::pair<std::string, std::string>> files = Plots(result);
    files.emplace_back("cost.md", CostMarkdown(result));
    files.emplace_back("cost.json", CostJson(result));
    files.emplace_back("table.tex", TableLatex(result));
    files.emplace_back("table.md", TableMarkdown(result));
    files.emplace_back("table.json", TableJson(result));
    if (!result.studies.empty()) {
      files.emplace_back("uncertainty.md", PredictorsMarkdown(result));
      files.emplace_back("uncertainty.json", PredictorsJson(result));
    }
    for (const char* name : kResultFiles) {  // results of the same recipe on other data
      const bool written =
          std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.first == name; });
      if (!written) LC_RETURN_IF_ERROR(Remove(name));
    }
    for (const auto& [name, content] : files) {
      LC_RETURN_IF_ERROR(WriteFileAtomically(setup_.folder() + "/" + name, content));
    }
    ordered_json json = SetupJson(setup_);
    json["models"] = models_;
    return WriteJson(json);
  }

  const ExperimentSetup setup_;
  const ExperimentHooks& hooks_;
  ModelCache cache_;
  ordered_json models_ = ordered_json::array();
  ExperimentOutcome outcome_;
};

}  // namespace

absl::StatusOr<ExperimentOutcome> RunExperiment(const ExperimentOptions& options, const ExperimentHooks& hooks) {
  LC_ASSIGN_OR_RETURN(ExperimentSetup setup, SetUp(options));
  return Runner(std::move(setup), hooks).Run();
}

}  // namespace lightcone
