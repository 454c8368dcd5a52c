#include <memory>

#include "base/programs.h"
#include "cli/commands.h"
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
    } else if (context.program->serve == nullptr) {
      context.Finish(BecomeProgram("lightcone", context.argv));
    } else {
      resolved->config.engine.helper_program = ProgramBeside("lightcone-model");
      context.Finish(context.program->serve(resolved->config));
    }
  });
}

}  // namespace lightcone::cli
