#include "research/experiment/experiment.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json/message_json.h"
#include "cli/research/commands.h"
#include "cli/table.h"
#include "research/experiment/recipe.h"
#include "trainer/progress.h"

namespace lightcone::cli {
namespace {

struct ExperimentFlags {
  ExperimentOptions options;
  std::string seeds;
  std::optional<double> images_per_second;
  bool list = false, dry_run = false;
};

absl::Status ListRecipes(Context& context) {
  Table table({"recipe", "what", "data", "source"});
  OrderedJson json = OrderedJson::array();
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    LC_ASSIGN_OR_RETURN(const Recipe recipe, OpenRecipe(shipped.name));
    table.Add({recipe.name, recipe.title, recipe.data, recipe.source});
    json.push_back({{"name", recipe.name}, {"title", recipe.title}, {"data", recipe.data}, {"source", recipe.source}});
  }
  if (context.json) {
    context.PrintJson(json);
  } else {
    context.Print(table.Text());
  }
  return absl::OkStatus();
}

void ShowForecast(const Context& context, const ExperimentForecast& forecast) {
  if (context.json) {
    OrderedJson models = OrderedJson::array();
    for (const ForecastModel& model : forecast.models) {
      OrderedJson one = {{"id", model.id},         {"role", model.role},
                         {"method", model.method}, {"seed", model.seed},
                         {"images", model.images}, {"epochs", model.epochs},
                         {"cached", model.cached}, {"gigamacs_per_image", model.gigamacs_per_image}};
      one["seconds"] = model.seconds.has_value() ? OrderedJson(*model.seconds) : OrderedJson(nullptr);
      models.push_back(std::move(one));
    }
    context.PrintJson({{"models", std::move(models)},
                       {"measured_on", forecast.measured_on},
                       {"images_per_second", forecast.images_per_second},
                       {"seconds", forecast.seconds}});
    return;
  }
  Table table({"model", "for", "seed", "images", "epochs", "GMAC/image", "time"});
  int64_t missing = 0;
  for (const ForecastModel& model : forecast.models) {
    missing += !model.cached;
    table.Add({model.id, model.role, StrCat(model.seed), Grouped(static_cast<uint64_t>(model.images)),
               StrCat(model.epochs), model.gigamacs_per_image > 0 ? Number(model.gigamacs_per_image) : "?",
               model.cached                ? "there"
               : model.seconds.has_value() ? SecondsText(*model.seconds)
                                           : "?"});
  }
  context.Print(table.Text());
  context.Print(StrCat(missing, " of ", forecast.models.size(), " models to train"));
  if (forecast.measured_on.empty()) {
    context.Print("\n");
    return;
  }
  context.Print(StrCat(", about ", SecondsText(forecast.seconds), " at ", Number(forecast.images_per_second),
                       " images/s of ", forecast.measured_on, "; fitting adapters and measuring come on top\n"));
}

absl::Status RunAll(Context& context, const ExperimentFlags& flags, const ExperimentHooks& hooks) {
  const absl::StatusOr<ExperimentOutcome> outcome = RunExperiment(flags.options, hooks);
  if (!outcome.ok()) {
    if (!absl::IsCancelled(outcome.status())) return outcome.status();
    return Annotate(outcome.status(), "stopped; the same command goes on");
  }
  if (context.json) {
    context.PrintJson({{"folder", outcome->folder},
                       {"trained", outcome->trained},
                       {"cached", outcome->cached},
                       {"table", PayloadJson(TableJson(outcome->result))}});
    return absl::OkStatus();
  }
  context.Print(TableMarkdown(outcome->result));
  context.Print(StrCat("\n", outcome->trained, " models trained, ", outcome->cached, " were there; '", outcome->folder,
                       "' holds tables, plots and experiment.json\n"));
  return absl::OkStatus();
}

absl::Status RunRecipe(Context& context, ExperimentFlags& flags) {
  if (flags.list) return ListRecipes(context);
  if (flags.options.recipe.empty()) {
    return InvalidField("RECIPE", "absent", "a file, or a name that `lightcone experiment --list` shows");
  }
  if (flags.images_per_second.has_value() && !flags.dry_run) {
    return InvalidField("--images-per-second", Number(*flags.images_per_second), "only with --dry-run");
  }
  if (!flags.seeds.empty()) {
    LC_ASSIGN_OR_RETURN(flags.options.seeds, ParseSeeds(flags.seeds, "--seeds"));
  }
  const StopOnInterrupt interrupt;
  ProgressPrinter printer(stderr);
  ExperimentHooks hooks;
  hooks.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  hooks.progress = printer.callback();
  hooks.stop = interrupt.flag();
  absl::Status status;
  if (flags.dry_run) {
    const absl::StatusOr<ExperimentForecast> forecast =
        ForecastExperiment(flags.options, flags.images_per_second, hooks);
    status = forecast.status();
    if (forecast.ok()) ShowForecast(context, *forecast);
  } else {
    status = RunAll(context, flags, hooks);
  }
  return status;
}

}  // namespace

void AddExperiment(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ExperimentFlags>();
  CLI::App* app = AddHeldCommand(root, "experiment");
  app->add_option("recipe", flags->options.recipe, "A TOML file or a name of --list");
  app->add_flag("--list", flags->list, "List the recipes that this program contains");
  app->add_option("--data", flags->options.data, "Data set; default: the recipe's");
  app->add_option("--out", flags->options.out, "Folder for models and results, for any number of recipes")
      ->capture_default_str();
  app->add_option("--seeds", flags->seeds, "Seeds, separated by commas; default: the recipe's");
  app->add_flag("--resume", flags->options.resume,
                "Go on with the experiment that stands in --out: same recipe, its data and seeds");
  app->add_flag("--dry-run", flags->dry_run, "Print what would be trained and how long that takes; train nothing");
  app->add_option("--images-per-second", flags->images_per_second,
                  "With --dry-run: of the newest model trained alone; default: measured for some seconds");
  app->callback([&context, flags] { context.Finish(RunRecipe(context, *flags)); });
}

}  // namespace lightcone::cli
