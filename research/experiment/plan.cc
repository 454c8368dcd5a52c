#include "research/experiment/plan.h"

#include <cstdio>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "research/experiment/row_adapter.h"
#include "trainer/methods/method.h"
#include "trainer/run_file.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

ordered_json DataJson(const Dataset& data) {
  uint32_t names = 0;
  for (const std::string& name : data.class_names) names = Crc32c(StrCat(name, "\n"), names);
  return {{"images", data.train.size()},         {"height", data.train.height},
          {"width", data.train.width},           {"channels", data.train.channels},
          {"crc32c", DataChecksum(data)},        {"classes", data.classes()},
          {"class_names_crc32c", names},         {"mean", data.normalisation.mean},
          {"stddev", data.normalisation.stddev}, {"augment", static_cast<int>(data.augment)}};
}

absl::StatusOr<ordered_json> OptionsJson(TrainConfig config, const ImageSet& train) {
  ordered_json options;
  config.hbct.normals = NormalsFor(config, train);
  for (const TrainOption& option : TrainOptions()) {
    if (StepsDependOn(option.name, *FindTrainingMethod(config.method)))
      options[option.name] = GetTrainOption(config, option.name);
  }
  // What it comes to here. Left out at float32, as in the keys of models that are older than the option.
  LC_ASSIGN_OR_RETURN(const std::string precision, PrecisionOf(config));
  if (precision == "float32") {
    options.erase("precision");
  } else {
    options["precision"] = precision;
  }
  // So is a weight that does not fall.
  if (options.contains("hbct.lambda_until") && options["hbct.lambda_until"] == "0") options.erase("hbct.lambda_until");
  LC_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
  if (device != "cpu") options["device"] = device;
  if (!config.encoder.backbone_file.empty()) {  // the file's content counts, not its path
    absl::StatusOr<std::string> bytes = ReadFile(config.encoder.backbone_file);
    if (!bytes.ok()) return Annotate(bytes.status(), "encoder.backbone_file");
    options["encoder.backbone_file"] = StrCat("crc32c ", Crc32c(*bytes));
  }
  return options;
}

bool ReadsBaseModel(const MethodInfo& method) {
  for (const std::string& option : method.switches) {
    if (option == "bt2.base_model") return true;
  }
  return false;
}

class Planner {
 public:
  Planner(const Recipe& recipe, const Dataset& whole, uint64_t seed) : recipe_(recipe), whole_(whole) {
    plan_.seed = seed;
  }

  absl::StatusOr<ExperimentPlan> Make() {
    LC_ASSIGN_OR_RETURN(plan_.steps, StepDatasets(recipe_, whole_, plan_.seed));
    for (const GenerationData& step : plan_.steps) data_.push_back(DataJson(step.dataset));
    for (const RecipeSpace& space : recipe_.spaces) {
      PlannedChain& chain = plan_.independent.emplace_back();
      for (int step = 0; step < steps(); ++step) {
        LC_ASSIGN_OR_RETURN(const TrainConfig config, RecipeConfig(recipe_, whole_, space, step, nullptr, plan_.seed));
        const char* const kind = step == 0 && steps() > 1 ? "old" : "independent";
        LC_ASSIGN_OR_RETURN(const int model, Add(config, step, -1, -1, StrCat(kind, " (", space.name, ")")));
        if (step > 0) LC_RETURN_IF_ERROR(CheckArchitecture(config, plan_.models[chain.models.back()].config, step));
        chain.models.push_back(model);
      }
    }
    for (const RecipeRow& row : recipe_.rows) LC_RETURN_IF_ERROR(AddRow(row));
    return std::move(plan_);
  }

 private:
  int steps() const { return static_cast<int>(plan_.steps.size()); }

  absl::Status AddRow(const RecipeRow& row) {
    const RecipeSpace& space = *recipe_.Space(row.space);
    const PlannedChain& alone = plan_.independent[static_cast<size_t>(&space - recipe_.spaces.data())];
    const MethodInfo& method = *FindTrainingMethod(row.method);
    if (steps() == 1 && method.needs_old_model) {
      return InvalidField(StrCat("row.", row.name, ".method"), row.method,
                          StrCat("methods that need no old model: scenario '", recipe_.scenario, "' has none"));
    }
    PlannedChain chain;
    for (int step = 0; step < steps(); ++step) {
      if (step == 0 && steps() > 1) {
        chain.models.push_back(alone.models[0]);
        continue;
      }
      LC_ASSIGN_OR_RETURN(const TrainConfig config, RecipeConfig(recipe_, whole_, space, step, &row, plan_.seed));
      const int old_model = step > 0 ? chain.models.back() : -1;
      if (old_model >= 0) {
        const TrainConfig& old = plan_.models[static_cast<size_t>(old_model)].config;
        LC_RETURN_IF_ERROR(CheckPair(row, method, config, old));
        if (row.adapter) {
          const ImageSet& train = plan_.steps[static_cast<size_t>(step)].dataset.train;
          LC_RETURN_IF_ERROR(Annotate(CheckRowAdapter(*row.adapter, old, config, train),
                                      StrCat("row '", row.name, "', seed ", plan_.seed)));
        }
      }
      LC_ASSIGN_OR_RETURN(const int model, Add(config, step, method.needs_old_model ? old_model : -1,
                                               ReadsBaseModel(method) ? alone.models[step] : -1, row.title));
      chain.models.push_back(model);
    }
    plan_.rows.push_back(std::move(chain));
    return absl::OkStatus();
  }

  // A scenario with another architecture needs a recipe that says which.
  absl::Status CheckArchitecture(const TrainConfig& config, const TrainConfig& old, int step) const {
    const EncoderConfig &a = config.encoder, &b = old.encoder;
    const bool same = a.architecture == b.architecture && a.width == b.width && a.stem == b.stem &&
                      a.backbone_file == b.backbone_file;
    if (!same || !plan_.steps[static_cast<size_t>(step)].architecture_changes) return absl::OkStatus();
    return InvalidField("encoder.architecture", a.architecture,
                        StrCat("another one from generation ", step, " on (scenario '", recipe_.scenario,
                               "'): set it in [new] or in [step.", step, "] and those after it"));
  }

  static absl::Status CheckPair(const RecipeRow& row, const MethodInfo& method, const TrainConfig& config,
                                const TrainConfig& old) {
    const bool any_space = row.adapter.has_value() && (!method.needs_old_model || OnlyThroughAdapter(config));
    const int64_t fresh = LayoutOf(config).prefix, before = LayoutOf(old).embedding;
    if (fresh != before && !any_space) {
      return InvalidField(
          StrCat("row.", row.name, ": encoder.dimension"), StrCat(fresh),
          StrCat(before, ", as the old model; or, with an adapter, method independent or lightcone with ",
                 "lightcone.compatible=none"));
    }
    if (config.metric != old.metric) {
      return InvalidField(StrCat("row.", row.name, ": metric"), config.metric,
                          StrCat(old.metric, ", as the old model"));
    }
    return method.needs_old_model && config.metric == "lorentz" ? CheckCurvature(row, config, old) : absl::OkStatus();
  }

  // As the training would, once the old model is there.
  static absl::Status CheckCurvature(const RecipeRow& row, const TrainConfig& config, const TrainConfig& old) {
    if (old.learn_curvature) {
      return InvalidField(StrCat("row.", row.name, ": learn_curvature"), "true for the old model",
                          "false: a new model has the old one's curvature, which nobody knows before it is learnt");
    }
    if (old.curvature != config.curvature) {
      return InvalidField(StrCat("row.", row.name, ": curvature"), NumberText(config.curvature),
                          StrCat(NumberText(old.curvature), ", as the old model"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Add(const TrainConfig& config, int step, int old_model, int base_model, const std::string& role) {
    LC_ASSIGN_OR_RETURN(ordered_json options,
                        OptionsJson(config, plan_.steps[static_cast<size_t>(step)].dataset.train));
    ordered_json key = {{"format", kExperimentFormat},
                        {"data", data_[static_cast<size_t>(step)]},
                        {"old_model", old_model < 0 ? "" : plan_.models[old_model].id},
                        {"base_model", base_model < 0 ? "" : plan_.models[base_model].id},
                        {"options", std::move(options)}};
    if (const int revision = FindTrainingMethod(config.method)->revision; revision > 0) key["revision"] = revision;
    PlannedModel model;
    model.key = key.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
    char checksum[9];
    std::snprintf(checksum, sizeof checksum, "%08x", Crc32c(model.key));
    model.id = StrCat(config.method, "-s", config.seed, "-", checksum);
    for (size_t i = 0; i < plan_.models.size(); ++i) {
      if (plan_.models[i].id != model.id) continue;
      if (plan_.models[i].key == model.key) return static_cast<int>(i);
      return Internal(StrCat("two models have the checksum ", checksum, "; change an option of either a little"));
    }
    model.role = role;
    model.config = config;
    model.config.name = model.id;
    model.step = step;
    model.old_model = old_model;
    model.base_model = base_model;
    model.images = plan_.steps[static_cast<size_t>(step)].dataset.train.size();
    plan_.models.push_back(std::move(model));
    return static_cast<int>(plan_.models.size()) - 1;
  }

  const Recipe& recipe_;
  const Dataset& whole_;
  std::vector<ordered_json> data_;
  ExperimentPlan plan_;
};

}  // namespace

absl::StatusOr<ExperimentPlan> MakePlan(const Recipe& recipe, const Dataset& whole, uint64_t seed) {
  LC_DCHECK(!recipe.name.empty());
  return Planner(recipe, whole, seed).Make();
}

}  // namespace lightcone
