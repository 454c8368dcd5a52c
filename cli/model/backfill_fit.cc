// lightcone backfill fit: a failure head from two models and their training images.
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/model/commands.h"
#include "cli/table.h"
#include "models/encoders/encoder.h"
#include "trainer/data/dataset.h"
#include "trainer/uncertainty/fit_models.h"

namespace lightcone::cli {
namespace {

struct BackfillFitFlags {
  std::string old_model, new_model, data = "glyphs", out;
  int64_t items = 0;
  uint64_t seed = 1;
};

absl::Status RunBackfillFit(Context& context, const BackfillFitFlags& flags) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> old_model, Encoder::LoadFolder(flags.old_model));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> new_model, Encoder::LoadFolder(flags.new_model));
  LC_ASSIGN_OR_RETURN(const Dataset dataset, OpenDataset(flags.data, flags.seed));
  LC_ASSIGN_OR_RETURN(const FailureHeadFile file, FitHeadOfModels(*old_model, *new_model, dataset.train, flags.items));
  LC_RETURN_IF_ERROR(WriteFailureHead(flags.out, file));
  if (context.json) {
    context.PrintJson({{"failure_head", flags.out},
                       {"from", file.from},
                       {"to", file.to},
                       {"images", file.images},
                       {"wrong", file.wrong},
                       {"classes", file.means.classes()}});
    return absl::OkStatus();
  }
  context.Print(StrCat("of ", Grouped(file.images), " images embedded by '", file.from, "', '", file.to, "' retrieves ",
                       Grouped(file.wrong), " wrongly; '", flags.out, "' tells which\n"));
  return absl::OkStatus();
}

}  // namespace

void AddBackfillFit(CLI::App& backfill, Context& context) {
  auto flags = std::make_shared<BackfillFitFlags>();
  CLI::App* app = AddHeldCommand(backfill, "backfill fit");
  app->add_option("--old-model", flags->old_model, "Folder of the model that embedded the gallery")->required();
  app->add_option("--new-model", flags->new_model, "Folder of the model that will embed the gallery anew")->required();
  app->add_option("--data", flags->data, "Data set of the new model's training, as in train")->capture_default_str();
  app->add_option("--items", flags->items,
                  "Size of the gallery to order, up to the number of training images; 0: that number");
  app->add_option("--seed", flags->seed, "Seed of the data set's drawing and splits")->capture_default_str();
  app->add_option("--out", flags->out, "File to write the failure head to")->required();
  app->callback([&context, flags] { context.Finish(RunBackfillFit(context, *flags)); });
}

}  // namespace lightcone::cli
