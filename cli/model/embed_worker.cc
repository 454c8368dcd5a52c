// lightcone embed-worker: the encoder of a backfill or a fit, in a process of its own. A server starts it and talks
// with it; for people there is nothing in it, so that help and completion leave it out.
#include "server/embed_worker/embed_worker.h"

#include <memory>
#include <string>

#include "base/lock_in.h"
#include "cli/commands.h"
#include "cli/model/commands.h"

namespace lightcone::cli {

void AddEmbedWorker(CLI::App& root, Context& context) {
  CLI::App* app = AddHeldCommand(root, "embed-worker");
  const auto sandbox = std::make_shared<std::string>(LockModeName(LockMode::kAuto));
  app->add_option("--sandbox", *sandbox, "The server's encoder.sandbox");
  app->callback([&context, sandbox] {
    LockMode lock = LockMode::kRequire;
    const absl::Status known = ParseLockMode(*sandbox, "sandbox", &lock);
    context.Finish(known.ok() ? server::RunEmbedWorker(lock) : known);
  });
}

}  // namespace lightcone::cli
