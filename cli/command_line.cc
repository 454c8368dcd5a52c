#include "cli/command_line.h"

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_codes.h"

namespace lightcone::cli {
namespace {

void AddAll(CLI::App& root, Context& context) {
  root.add_option("-s,--server", context.address, "Address of the server, HOST:PORT")
      ->envname("LIGHTCONE_SERVER")
      ->capture_default_str();
  root.add_option("--timeout", context.timeout_seconds,
                  "Seconds for a call, retries included; one that is to --wait takes as long as it takes, unless given")
      ->capture_default_str()
      ->each([&context](const std::string&) { context.timeout_given = true; });
  root.add_option("--operator", context.operator_name, "Who asks, for the server's audit log; default: USER@HOST")
      ->envname("LIGHTCONE_OPERATOR");
  root.add_flag("--json", context.json, "Answers (stdout) and errors (stderr) as JSON, for programs");
  root.require_subcommand(1);
  // Global flags may stand behind the subcommand, too.
  root.fallthrough();
  AddServe(root, context);
  AddDemo(root, context);
  AddTrain(root, context);
  AddTraining(root, context);
  AddEval(root, context);
  AddEmbed(root, context);
  AddEmbedWorker(root, context);
  AddExperiment(root, context);
  AddAdapt(root, context);
  AddCollection(root, context);
  AddGeneration(root, context);
  AddRollout(root, context);
  AddJob(root, context);
  AddBackfill(root, context);
  AddUpsert(root, context);
  AddSearch(root, context);
  AddGet(root, context);
  AddDelete(root, context);
  AddScroll(root, context);
  AddCount(root, context);
  AddImport(root, context);
  AddExport(root, context);
  AddStatus(root, context);
  AddBench(root, context);
  AddVersion(root, context);
  AddCompletion(root, context);
}

// "no subcommand 'serch'; there are: ..." when a word stands where a subcommand is needed; else empty.
std::string UnknownSubcommand(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  const std::vector<const CLI::App*> known =
      app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
  if (known.empty()) return "";
  for (const std::string& word : root.remaining(/*recurse=*/true)) {
    if (word.starts_with('-')) continue;
    std::string names;
    for (const CLI::App* one : known) names += (names.empty() ? "" : ", ") + one->get_name();
    return "lightcone: no subcommand '" + word + "'; there are: " + names;
  }
  return "";
}

}  // namespace

CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& help) {
  return parent.add_subcommand(name, help);
}

int RunCommandLine(int argc, const char* const* argv) {
  // A reader that went away (`lightcone scroll ... | head`) is an error of a write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App root(
      "Lightcone: a vector retrieval server in which a new embedding model goes live the minute it is trained",
      "lightcone");
  root.footer(
      "Exit codes: 0 done, 1 failure, 2 wrong flag or value, 3 not found, 4 no server or no answer in time,\n"
      "5 refused in this state, 6 a limit or overload, 130 interrupted, 141 the reader of the output went away.");
  Context context;
  AddAll(root, context);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      root.exit(error);
      return kExitOk;
    }
    const std::string unknown = UnknownSubcommand(root);
    if (unknown.empty()) {
      root.exit(error);
    } else {
      std::fprintf(stderr, "%s\n", unknown.c_str());
    }
    return kExitUsage;
  }
  context.FinishOutput();
  return context.exit_code();
}

}  // namespace lightcone::cli
