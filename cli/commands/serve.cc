#include "server/app/serve.h"

#include <memory>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/served/child_server.h"
#include "server/options/resolve.h"

namespace lightcone::cli {

void AddServe(CLI::App& root, Context& context) {
  auto flags = std::make_shared<server::ServerFlags>();
  CLI::App* app = AddCommand(root, "serve", "Run the server until SIGTERM or Ctrl-C");
  server::AddServerFlags(app, flags.get());
  app->callback([&context, flags] {
    absl::StatusOr<server::ResolvedConfig> resolved = server::ResolveConfig(*flags, server::ProcessEnvironment());
    if (!resolved.ok()) {
      context.Finish(resolved.status());
    } else if (flags->print_config) {
      context.Print(server::PrintConfig(*resolved));
      context.Finish(absl::OkStatus());
    } else {
      resolved->config.engine.helper_program =
          OwnBinary().value_or("");  // jobs fit adapters in processes of this program
      context.Finish(server::RunServer(resolved->config, {}));
    }
  });
}

}  // namespace lightcone::cli
