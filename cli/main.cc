// `lightcone`: one program, one file a subcommand.
#include <csignal>

#include "cli/commands.h"
#include "cli/exit_codes.h"

namespace lightcone::cli {
namespace {

void AddAll(CLI::App& root, Context& context) {
  root.add_option("-s,--server", context.address, "Address of the server, HOST:PORT")
      ->envname("LIGHTCONE_SERVER")
      ->capture_default_str();
  root.add_option("--timeout", context.timeout_seconds, "Seconds for a call, retries included")->capture_default_str();
  root.add_flag("--json", context.json, "Answers (stdout) and errors (stderr) as JSON, for programs");
  root.require_subcommand(1);
  // Global flags may stand behind the subcommand, too.
  root.fallthrough();
  AddServe(root, context);
  AddDemo(root, context);
  AddTrain(root, context);
  AddEval(root, context);
  AddCollection(root, context);
  AddGeneration(root, context);
  AddUpsert(root, context);
  AddSearch(root, context);
  AddGet(root, context);
  AddDelete(root, context);
  AddScroll(root, context);
  AddCount(root, context);
  AddImport(root, context);
  AddExport(root, context);
  AddStatus(root, context);
  AddVersion(root, context);
  AddCompletion(root, context);
}

int Main(int argc, char** argv) {
  // A reader that went away (`lightcone scroll ... | head`) is an error of a write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App root(
      "Lightcone: a vector retrieval server in which a new embedding model goes live the minute it is trained",
      "lightcone");
  root.footer(
      "Exit codes: 0 done, 1 failure, 2 wrong flag or value, 3 not found, 4 no server or no answer in time,\n"
      "5 refused in this state, 6 a limit or overload, 130 interrupted.");
  Context context;
  AddAll(root, context);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    root.exit(error);
    return asked_for ? kExitOk : kExitUsage;
  }
  if (std::fflush(stdout) != 0 && context.exit_code() == kExitOk) return kExitFailure;
  return context.exit_code();
}

}  // namespace
}  // namespace lightcone::cli

int main(int argc, char** argv) { return lightcone::cli::Main(argc, argv); }
