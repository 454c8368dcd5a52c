#include "base/version.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {

void AddVersion(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "version", "The version of this program");
  app->callback([&context] {
    if (context.json) {
      context.PrintJson({{"version", kVersion}, {"wire", "lightcone.v1"}, {"compiler", __VERSION__}});
    } else {
      context.Print(StrCat("lightcone ", kVersion, " (wire lightcone.v1, compiler ", __VERSION__, ")\n"));
    }
    context.Finish(absl::OkStatus());
  });
}

}  // namespace lightcone::cli
