#include "trainer/train.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/message_json.h"
#include "cli/table.h"
#include "models/architecture.h"
#include "models/manifest.h"
#include "trainer/config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/split.h"
#include "trainer/methods/method.h"
#include "trainer/progress.h"

namespace lightcone::cli {
namespace {

struct Flags {
  std::string method, data = "glyphs", out, old_model, recipe = "quick", name;
  std::vector<std::string> settings;
  uint64_t seed = 1;
  int classes = 0;
  double fraction = 1.0;
  bool list = false;
};

std::atomic<bool> interrupted{false};
void OnInterrupt(int) { interrupted.store(true); }

std::string ListText() {
  Table methods({"method", "what", "needs --old", "source"});
  for (const MethodInfo& method : TrainingMethods()) {
    methods.Add({method.name, method.help, method.needs_old_model ? "yes" : "no", method.source});
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
  return StrCat(methods.Text(), "\n", data.Text(), "\n", recipes.Text(), "\n", architectures.Text(), "\n",
                options.Text());
}

OrderedJson ListJson() {
  OrderedJson json;
  for (const MethodInfo& method : TrainingMethods()) {
    json["methods"].push_back({{"name", method.name},
                               {"help", method.help},
                               {"source", method.source},
                               {"needs_old_model", method.needs_old_model},
                               {"switches", method.switches}});
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
absl::Status Cut(const Flags& flags, Dataset* dataset) {
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

absl::StatusOr<TrainConfig> ConfigOf(const Flags& flags, const Dataset& dataset) {
  LC_ASSIGN_OR_RETURN(TrainConfig config, RecipeFor(dataset, flags.recipe));
  const MethodInfo* method = FindTrainingMethod(flags.method);
  if (method == nullptr) {
    std::string known;
    for (const MethodInfo& one : TrainingMethods()) known += StrCat(known.empty() ? "" : ", ", one.name);
    return InvalidField("--method", StrCat("'", flags.method, "'"), known);
  }
  if (method->needs_old_model && flags.old_model.empty()) {
    return InvalidField("--old", "absent",
                        StrCat("the folder of the model that '", flags.method, "' is to be compatible with"));
  }
  config.method = flags.method;
  config.seed = flags.seed;
  config.old_model = flags.old_model;
  const std::filesystem::path out = std::filesystem::path(flags.out) / "";
  config.name = flags.name.empty() ? out.parent_path().filename().string() : flags.name;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) return InvalidField("--set", StrCat("'", setting, "'"), "NAME=VALUE");
    LC_RETURN_IF_ERROR(SetTrainOption(config, setting.substr(0, equals), setting.substr(equals + 1)));
  }
  LC_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::Status Run(Context& context, const Flags& flags) {
  if (flags.list) {
    if (context.json) {
      context.PrintJson(ListJson());
    } else {
      context.Print(ListText());
    }
    return absl::OkStatus();
  }
  if (flags.out.empty()) return InvalidField("--out", "absent", "the folder for the model");
  LC_ASSIGN_OR_RETURN(Dataset dataset, OpenDataset(flags.data, flags.seed));
  LC_ASSIGN_OR_RETURN(const TrainConfig config, ConfigOf(flags, dataset));
  LC_RETURN_IF_ERROR(Cut(flags, &dataset));
  interrupted.store(false);
  const auto previous = std::signal(SIGINT, &OnInterrupt);
  ProgressPrinter printer(stderr);
  const absl::StatusOr<TrainResult> result = Train(dataset, config, flags.out, printer.callback(), &interrupted);
  std::signal(SIGINT, previous);
  if (!result.ok()) {
    if (!absl::IsCancelled(result.status())) return result.status();
    return Annotate(result.status(), "stopped; the same command goes on from the checkpoint");
  }
  if (context.json) {
    context.PrintJson({{"folder", result->folder},
                       {"steps", result->steps},
                       {"resumed_at", result->resumed_at},
                       {"seconds", result->seconds},
                       {"images_per_second", result->images_per_second},
                       {"final_loss", result->final_loss},
                       {"manifest", PayloadJson(ToJson(result->manifest))}});
  } else {
    context.Print(StrCat("trained '", result->manifest.name, "' by ", result->manifest.method, ": ", result->steps,
                         " steps in ", Number(result->seconds), " s, ", Number(result->images_per_second),
                         " images/s, loss ", Number(result->final_loss), "\n", result->folder,
                         " holds checkpoint.bin, encoder.pt and manifest.json\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrain(CLI::App& root, Context& context) {
  auto flags = std::make_shared<Flags>();
  flags->method = "independent";
  CLI::App* app = root.add_subcommand("train", "Train an encoder; a stopped training goes on when it is called again");
  app->add_flag("--list", flags->list, "List methods, data sets, recipes, architectures and options");
  app->add_option("--method", flags->method, "A name of --list")->capture_default_str();
  app->add_option("--data", flags->data, "glyphs, cifar100:DIR, idx:DIR, npy:DIR, folder:DIR")->capture_default_str();
  app->add_option("--out", flags->out, "Folder for checkpoint, encoder and manifest");
  app->add_option("--old", flags->old_model, "Folder of the model to be compatible with");
  app->add_option("--recipe", flags->recipe, "quick (CPU, minutes) or paper (GPU)")->capture_default_str();
  app->add_option("--name", flags->name, "Of the model; default: the last part of --out");
  app->add_option("--seed", flags->seed, "Of drawing, splits and training")->capture_default_str();
  app->add_option("--classes", flags->classes, "Train on the first classes only; 0: all");
  app->add_option("--fraction", flags->fraction, "Train on this share of each class")->capture_default_str();
  app->add_option("--set", flags->settings, "NAME=VALUE of an option of --list; may be repeated");
  app->callback([&context, flags] { context.Finish(Run(context, *flags)); });
}

}  // namespace lightcone::cli
