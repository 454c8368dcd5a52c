// lightcone embed-worker: the encoder of a backfill or a fit, in a process of its own. A server starts it and talks
// with it; for people there is nothing in it, so that help and completion leave it out.
#include "server/embed_worker/embed_worker.h"

#include "cli/commands.h"
#include "cli/model/commands.h"

namespace lightcone::cli {

void AddEmbedWorker(CLI::App& root, Context& context) {
  CLI::App* app = AddHeldCommand(root, "embed-worker");
  app->callback([&context] { context.Finish(server::RunEmbedWorker()); });
}

}  // namespace lightcone::cli
