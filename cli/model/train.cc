#include "trainer/train.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/commands/register_model.h"
#include "cli/interrupt.h"
#include "cli/json/message_json.h"
#include "cli/model/commands.h"
#include "cli/model/training_lock.h"
#include "cli/table.h"
#include "models/adapter_file.h"
#include "models/encoders/architecture.h"
#include "models/encoders/encoder.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "trainer/adapt/item_adapter.h"
#include "trainer/adapt/options.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/split.h"
#include "trainer/methods/method.h"
#include "trainer/progress.h"
#include "trainer/progress_file.h"

namespace lightcone::cli {
namespace {

struct TrainFlags {
  std::string method, data = "glyphs", out, old_model, recipe = "quick", name, progress;
  std::vector<std::string> settings;
  uint64_t seed = 1;
  int classes = 0;
  double fraction = 1.0;
  bool list = false;
  TrainingLock lock;
};

// The metrics that a method works in, its default first.
std::string MetricsOf(const MethodInfo& method) {
  if (!method.metric.empty()) return method.metric;
  return method.ends_with_adapter ? "lorentz, cosine" : "lorentz, cosine, euclidean";
}

// What base_loss=auto means.
std::string BaseLossOf(const MethodInfo& method) {
  if (!method.base_loss.empty()) return method.base_loss;
  if (method.metric == "lorentz") return "lorentz-mlr";
  return method.metric.empty() ? "lorentz-mlr; elsewhere softmax" : "softmax";
}

std::string ListText() {
  Table methods({"method", "what", "needs --old", "metric", "base_loss=auto", "defaults of its own", "source"});
  Table switches({"method", "its switches, for --set"});
  for (const MethodInfo& method : TrainingMethods()) {
    std::string defaults, names;
    for (const auto& [option, value] : method.defaults) {
      defaults += StrCat(defaults.empty() ? "" : " ", option, "=", value);
    }
    for (const std::string& name : method.switches) names += StrCat(names.empty() ? "" : " ", name);
    methods.Add({method.name, method.help, method.needs_old_model ? "yes" : "no", MetricsOf(method), BaseLossOf(method),
                 defaults, method.source});
    if (!names.empty()) switches.Add({method.name, names});
  }
  Table data({"data", "what"});
  for (const auto& [name, help] : DatasetKinds()) data.Add({name, help});
  Table recipes({"recipe", "what"});
  for (const RecipeInfo& recipe : TrainRecipes()) recipes.Add({recipe.name, recipe.help});
  Table architectures({"architecture", "what"});
  for (const ArchitectureInfo& architecture : Architectures())
    architectures.Add({architecture.name, architecture.help});
  Table options({"--set", "default", "allowed", "what"});
  for (const TrainOption& option : TrainOptions()) {
    options.Add({option.name, option.default_value, option.allowed, option.help});
  }
  return StrCat(methods.Text(), "\n", switches.Text(), "\n", data.Text(), "\n", recipes.Text(), "\n",
                architectures.Text(), "\n", options.Text());
}

OrderedJson ListJson() {
  OrderedJson json;
  for (const MethodInfo& method : TrainingMethods()) {
    OrderedJson defaults = OrderedJson::object();
    for (const auto& [option, value] : method.defaults) defaults[option] = value;
    json["methods"].push_back({{"name", method.name},
                               {"help", method.help},
                               {"source", method.source},
                               {"needs_old_model", method.needs_old_model},
                               {"ends_with_adapter", method.ends_with_adapter},
                               {"metric", MetricsOf(method)},
                               {"base_loss", BaseLossOf(method)},
                               {"switches", method.switches},
                               {"defaults", defaults}});
  }
  for (const auto& [name, help] : DatasetKinds()) json["data"].push_back({{"name", name}, {"help", help}});
  for (const RecipeInfo& recipe : TrainRecipes()) {
    json["recipes"].push_back({{"name", recipe.name}, {"help", recipe.help}});
  }
  for (const ArchitectureInfo& architecture : Architectures()) {
    json["architectures"].push_back({{"name", architecture.name}, {"help", architecture.help}});
  }
  for (const TrainOption& option : TrainOptions()) {
    json["options"].push_back(
        {{"name", option.name}, {"default", option.default_value}, {"allowed", option.allowed}, {"help", option.help}});
  }
  return json;
}

// Leaves the first classes, or a share of every class, in the training set: what an older model would have known.
absl::Status Cut(const TrainFlags& flags, Dataset* dataset) {
  if (flags.classes != 0) {
    if (flags.classes < 2 || flags.classes > dataset->classes()) {
      return InvalidField("--classes", StrCat(flags.classes), StrCat("2 .. ", dataset->classes()));
    }
    dataset->train = SelectClasses(dataset->train, flags.classes);
    dataset->test = SelectClasses(dataset->test, flags.classes);
    dataset->class_names.resize(static_cast<size_t>(flags.classes));
  }
  if (!(flags.fraction > 0 && flags.fraction <= 1)) {
    return InvalidField("--fraction", StrCat(flags.fraction), "above 0 .. 1");
  }
  if (flags.fraction < 1) dataset->train = SelectFraction(dataset->train, flags.fraction, flags.seed);
  return absl::OkStatus();
}

absl::StatusOr<TrainConfig> ConfigOf(const TrainFlags& flags, const Dataset& dataset) {
  LC_ASSIGN_OR_RETURN(TrainConfig config, RecipeFor(dataset, flags.recipe));
  LC_RETURN_IF_ERROR(ChooseMethod(flags.method, config));
  if (FindTrainingMethod(flags.method)->needs_old_model && flags.old_model.empty()) {
    return InvalidField("--old", "absent",
                        StrCat("the folder of the old model that method '", flags.method, "' is trained against"));
  }
  config.seed = flags.seed;
  config.old_model = flags.old_model;
  const std::filesystem::path out = std::filesystem::path(flags.out) / "";
  config.name = flags.name.empty() ? out.parent_path().filename().string() : flags.name;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) return InvalidField("--set", StrCat("'", setting, "'"), "NAME=VALUE");
    LC_RETURN_IF_ERROR(SetTrainOption(config, setting.substr(0, equals), setting.substr(equals + 1)));
  }
  for (const std::string& setting : flags.settings) {
    if (ReadsOption(*FindTrainingMethod(config.method), setting.substr(0, setting.find('=')))) continue;
    return InvalidField("--set", StrCat("'", setting, "'"),
                        StrCat("options that method '", config.method, "' reads (lightcone train --list)"));
  }
  LC_RETURN_IF_ERROR(config.Validate());
  return config;
}

// What the adapter beside a model was fitted by.
absl::StatusOr<nlohmann::ordered_json> AdapterSeal(const std::string& folder, const TrainConfig& config) {
  LC_ASSIGN_OR_RETURN(const Manifest model, ReadManifest(folder));
  LC_ASSIGN_OR_RETURN(const Manifest old_model, ReadManifest(config.old_model));
  LC_ASSIGN_OR_RETURN(const std::string file, ReadFile(ModelAdapterPath(folder)));  // nobody put another in its place
  return nlohmann::ordered_json{{"fit", AdaptFitVersion(AdapterKind::kResidualMlp)},
                                {"old_crc32c", old_model.encoder_crc32c},
                                {"new_crc32c", model.encoder_crc32c},
                                {"seed", config.seed},
                                {"file_crc32c", Crc32c(file)}};
}

// Whether the folder of a finished model holds the adapter that would be fitted now.
bool HasAdapter(const std::string& folder, const TrainConfig& config) {
  const absl::StatusOr<nlohmann::ordered_json> now = AdapterSeal(folder, config);
  const absl::StatusOr<nlohmann::ordered_json> kept = ReadSealed(ModelAdapterSealPath(folder));
  if (!now.ok() || !kept.ok() || !ReadAdapter(ModelAdapterPath(folder)).ok()) return false;
  for (const auto& [key, value] : now->items()) {
    if (!kept->contains(key) || (*kept)[key] != value) return false;
  }
  return true;
}

// The item adapter that belongs to the model, beside its encoder.
absl::Status FitBeside(const std::string& folder, const TrainConfig& config, const Dataset& dataset,
                       const std::atomic<bool>* stop) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> old_model,
                      Encoder::LoadFolder(config.old_model, {.device = config.device}));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> new_model, Encoder::LoadFolder(folder, {.device = config.device}));
  std::fprintf(stderr, "fitting the adapter for the old model's items\n");
  LC_ASSIGN_OR_RETURN(const AdapterFile file,
                      FitItemAdapter(*old_model, *new_model, dataset, AugmentOf(config, dataset), config.seed, stop));
  LC_RETURN_IF_ERROR(WriteAdapter(ModelAdapterPath(folder), file));
  LC_ASSIGN_OR_RETURN(const nlohmann::ordered_json seal, AdapterSeal(folder, config));
  return WriteSealed(ModelAdapterSealPath(folder), seal);
}

struct Trained {
  TrainResult result;
  std::string adapter;  // adapter of the model; empty: none
};

absl::StatusOr<Trained> TrainAndAdapt(const TrainFlags& flags, const Dataset& dataset, const TrainConfig& config,
                                      const std::atomic<bool>* stop) {
  const bool ends_with_adapter = FindTrainingMethod(config.method)->ends_with_adapter;
  if (ends_with_adapter) LC_RETURN_IF_ERROR(CheckItemAdapter(dataset));
  ProgressPrinter printer(stderr);
  Trained trained;
  std::optional<ProgressFile> file;
  if (!flags.progress.empty()) file.emplace(flags.progress);
  const auto show = [&](const TrainProgress& progress) {
    printer.Show(progress);
    if (file) file->Show(progress);
  };
  LC_ASSIGN_OR_RETURN(trained.result, Train(dataset, config, flags.out, show, stop));
  if (file && !file->status().ok()) std::fprintf(stderr, "%s\n", MessageOf(file->status()).c_str());
  if (!ends_with_adapter) return trained;
  trained.adapter = ModelAdapterPath(flags.out);
  if (HasAdapter(flags.out, config)) return trained;
  const absl::Status fitted = FitBeside(flags.out, config, dataset, stop);
  if (!fitted.ok()) return Annotate(fitted, StrCat("'", flags.out, "' is trained; its adapter"));
  return trained;
}

absl::Status RunTrain(Context& context, const TrainFlags& flags) {
  if (flags.list) {
    if (context.json) {
      context.PrintJson(ListJson());
    } else {
      context.Print(ListText());
    }
    return absl::OkStatus();
  }
  if (flags.out.empty()) return InvalidField("--out", "absent", "the folder for the model");
  std::string device = "auto";
  for (const std::string& setting : flags.settings) {
    if (setting.starts_with("device=")) device = setting.substr(setting.find('=') + 1);
  }
  LC_RETURN_IF_ERROR(LockTrainingIn(flags.lock, device));
  LC_ASSIGN_OR_RETURN(Dataset dataset, OpenDataset(flags.data, flags.seed));
  LC_ASSIGN_OR_RETURN(const TrainConfig config, ConfigOf(flags, dataset));
  LC_RETURN_IF_ERROR(Cut(flags, &dataset));
  const StopOnInterrupt interrupt;
  const absl::StatusOr<Trained> trained = TrainAndAdapt(flags, dataset, config, interrupt.flag());
  if (!trained.ok()) {
    if (!absl::IsCancelled(trained.status())) return trained.status();
    return Annotate(trained.status(), "stopped; the same command goes on");
  }
  const TrainResult& result = trained->result;
  if (context.json) {
    OrderedJson json = {{"folder", result.folder},
                        {"steps", result.steps},
                        {"resumed_at", result.resumed_at},
                        {"seconds", result.seconds},
                        {"images_per_second", result.images_per_second},
                        {"final_loss", result.final_loss},
                        {"manifest", PayloadJson(ToJson(result.manifest))}};
    if (!trained->adapter.empty()) json["adapter"] = trained->adapter;
    context.PrintJson(json);
  } else {
    context.Print(StrCat(
        "trained '", result.manifest.name, "' by ", result.manifest.method, ": ", result.steps, " steps in ",
        Number(result.seconds), " s, ", Number(result.images_per_second), " images/s, loss ", Number(result.final_loss),
        "\n", result.folder, " holds checkpoint.bin, encoder.pt and manifest.json\n",
        trained->adapter.empty()
            ? ""
            : StrCat(trained->adapter, " carries the old items: `generation register --model ", result.folder, "` ",
                     result.manifest.through_adapter ? "without a parent (--expects-adapter for another dimension)"
                                                     : "with its --parent",
                     " puts it, too\n")));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrain(CLI::App& root, Context& context) {
  auto flags = std::make_shared<TrainFlags>();
  flags->method = "independent";
  CLI::App* app = AddHeldCommand(root, "train");
  app->add_flag("--list", flags->list, "List methods, data sets, recipes, architectures and options");
  app->add_option("--method", flags->method, "Training method: a name of --list")->capture_default_str();
  app->add_option("--data", flags->data, DatasetNames())->capture_default_str();
  app->add_option("--out", flags->out, "Folder for checkpoint, encoder and manifest");
  app->add_option("--old", flags->old_model, "Folder of the old model, for methods that need one");
  app->add_option("--recipe", flags->recipe, "Size of the training: quick (CPU, minutes) or paper (GPU)")
      ->capture_default_str();
  app->add_option("--name", flags->name, "Name of the model; default: the last part of --out");
  app->add_option("--seed", flags->seed, "Seed of drawing, splits and training")->capture_default_str();
  app->add_option("--classes", flags->classes, "Number of classes to train on, from the first; 0: all");
  app->add_option("--fraction", flags->fraction, "Share of each class to train on")->capture_default_str();
  app->add_option("--progress", flags->progress, "File that always holds the progress, as JSON");
  app->add_option("--set", flags->settings, "NAME=VALUE of an option of --list; may be repeated");
  AddTrainingLock(app, &flags->lock);
  app->callback([&context, flags] { context.Finish(RunTrain(context, *flags)); });
}

}  // namespace lightcone::cli
