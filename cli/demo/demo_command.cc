#include <filesystem>
#include <memory>
#include <string>

#include "base/files.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/demo/demo.h"
#include "cli/model/commands.h"

namespace lightcone::cli {
namespace {

struct DemoFlags {
  DemoOptions options;
  std::string json;
};

absl::Status RunDemoCommand(Context& context, DemoFlags& flags) {
  if (flags.options.folder.empty()) flags.options.folder = "lightcone-demo";
  // With --json -, standard output belongs to the JSON; the story goes to standard error.
  std::FILE* out = flags.json == "-" || context.json ? stderr : stdout;
  LC_ASSIGN_OR_RETURN(const DemoResult result, RunDemo(flags.options, out));
  const std::string json = DemoJson(result);
  if (flags.json == "-" || context.json) {
    context.Print(json);
  } else if (!flags.json.empty()) {
    LC_RETURN_IF_ERROR(WriteFileAtomically(flags.json, json));
  }
  if (!result.restart_identical) {
    return Internal("the restarted server gave other answers than before the kill");
  }
  return absl::OkStatus();
}

}  // namespace

void AddDemo(CLI::App& root, Context& context) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* app = AddHeldCommand(root, "demo");
  app->add_option("--data", flags->options.data,
                  StrCat(DatasetNames(), "; text:DIR of texts with the embeddings of two models"))
      ->capture_default_str();
  app->add_option("--old", flags->options.old_model,
                  "MODEL of text:DIR that embedded the gallery; default: the one of the smallest dimension");
  app->add_option("--new", flags->options.new_model,
                  "MODEL of text:DIR to upgrade to; default: the one of the largest dimension");
  app->add_option("--pairs", flags->options.pairs,
                  StrCat("Texts of text:DIR that both models embed for the adapter, at least ", kDemoPairsMin,
                         "; default: ", kDemoPairs, ", or half of a smaller gallery"));
  app->add_option("--seed", flags->options.seed, "Seed of drawing, splits, pairs and training")->capture_default_str();
  app->add_option("--dir", flags->options.folder,
                  "Folder for models, server data and report.html (default: lightcone-demo)");
  app->add_option("--json", flags->json, "Write the figures to this file; - for standard output");
  app->add_option("--recipe", flags->options.recipe, "Size of the trainings: quick (CPU, minutes) or paper")
      ->capture_default_str();
  app->add_flag("--keep", flags->options.keep, "Leave server, collection and models in place");
  app->callback([&context, flags] { context.Finish(RunDemoCommand(context, *flags)); });
}

}  // namespace lightcone::cli
