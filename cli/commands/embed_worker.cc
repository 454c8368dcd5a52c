// lightcone embed-worker: the encoder of a backfill or a fit, in a process of its own. A server starts it and talks
// with it; for people there is nothing in it, so that help and completion leave it out.
#include "server/app/embed_worker.h"

#include "cli/commands.h"

namespace lightcone::cli {

void AddEmbedWorker(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("embed-worker", "Embed what a server sends, as its child");
  app->group("");  // hidden
  app->callback([&context] { context.Finish(server::RunEmbedWorker()); });
}

}  // namespace lightcone::cli
