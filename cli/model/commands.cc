#include "cli/model/commands.h"

#include "base/status.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

HeldCommands ModelCommands() {
  return {{"demo", AddDemo},
          {"train", AddTrain},
          {"eval", AddEval},
          {"embed", AddEmbed},
          {"embed-worker", AddEmbedWorker},
          {"adapt", AddAdapt},
          {"backfill fit", AddBackfillFit}};
}

std::string DatasetNames() {
  std::string text;
  for (const auto& [name, help] : DatasetKinds()) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
}

}  // namespace lightcone::cli
