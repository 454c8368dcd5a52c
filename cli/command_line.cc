#include "cli/command_line.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/dcheck.h"
#include "base/programs.h"
#include "cli/commands.h"
#include "cli/commands/snapshot.h"
#include "cli/exit_codes.h"

namespace lightcone::cli {
namespace {

// Subcommands that need libraries that not every program links.
struct HeldCommand {
  std::string_view words, program, help;
  bool hidden = false;
};
constexpr HeldCommand kHeldCommands[] = {
    {"demo", "lightcone-model",
     "The whole story: train, embed, upgrade without backfilling, measure, kill -9, compare"},
    {"train", "lightcone-model", "Train an encoder; a stopped training goes on when it is called again"},
    {"eval", "lightcone-model", "Retrieval figures of one model's queries in another's gallery"},
    {"embed", "lightcone-model", "Embed the images of a data set into a .npy file"},
    {"embed-worker", "lightcone-model", "Embed what a server sends, as its child", /*hidden=*/true},
    {"adapt", "lightcone-model",
     "Fit an adapter between two models' embeddings, show what it gains, and put it into a collection if asked to"},
    {"backfill fit", "lightcone-model", "Learn from training images which items the new model will not find"},
    {"experiment", "lightcone-research",
     "Train and measure all models of a recipe; tables and plots. What is trained already is used again"},
    // The script names the flags of all subcommands, which only this program declares.
    {"completion", "lightcone-research", "Print a completion script: bash, zsh or fish"},
};

const HeldCommand& FindHeldCommand(std::string_view words) {
  const auto at = std::find_if(std::begin(kHeldCommands), std::end(kHeldCommands),
                               [&](const HeldCommand& one) { return one.words == words; });
  LC_DCHECK(at != std::end(kHeldCommands));
  return *at;
}

void AddAll(CLI::App& root, Context& context) {
  root.add_option("-s,--server", context.address, "Address of the server, HOST:PORT")
      ->envname("LIGHTCONE_SERVER")
      ->capture_default_str();
  root.add_option(
          "--timeout", context.timeout_seconds,
          "Seconds that a call may take, retries included; a call with --wait has no limit unless this flag is given")
      ->capture_default_str()
      ->each([&context](const std::string&) { context.timeout_given = true; });
  root.add_option("--operator", context.operator_name,
                  "Name of the caller for the server's audit log; default: USER@HOST")
      ->envname("LIGHTCONE_OPERATOR");
  const auto file = [&root](const char* flag, std::string& to, const char* environment, const char* help) {
    root.add_option(flag, to, help)->envname(environment)->type_name("FILE");
  };
  file("--api-key-file", context.api_key_file, "LIGHTCONE_API_KEY_FILE", "File with the key that each call shows");
  file("--ca", context.ca_file, "LIGHTCONE_CA",
       "PEM file with the authorities of the server's certificate; without it calls are not encrypted");
  file("--cert", context.cert_file, "LIGHTCONE_CERT",
       "PEM file with the client's own certificate; needs --ca and --key");
  file("--key", context.key_file, "LIGHTCONE_KEY", "PEM file with the private key of --cert");
  root.add_flag("--json", context.json, "Print answers (stdout) and errors (stderr) as JSON, for programs");
  root.require_subcommand(1);
  // Global flags may stand behind the subcommand, too.
  root.fallthrough();
  AddServe(root, context);
  AddHeld(root, context, "demo");
  AddHeld(root, context, "train");
  AddTraining(root, context);
  for (const char* const words : {"eval", "embed", "embed-worker", "experiment", "adapt"})
    AddHeld(root, context, words);
  AddCollection(root, context);
  AddGeneration(root, context);
  AddRollout(root, context);
  AddJob(root, context);
  AddBackfill(root, context);
  AddUpsert(root, context);
  AddSearch(root, context);
  AddGet(root, context);
  AddDelete(root, context);
  AddPayload(root, context);
  AddScroll(root, context);
  AddCount(root, context);
  AddFacet(root, context);
  AddImport(root, context);
  AddExport(root, context);
  AddRepair(root, context);
  AddSnapshot(root, context);
  AddRestore(root, context);
  AddStatus(root, context);
  AddBench(root, context);
  AddKey(root, context);
  AddVersion(root, context);
  AddHeld(root, context, "completion");
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

CLI::App* AddHeldCommand(CLI::App& parent, std::string_view words) {
  const HeldCommand& command = FindHeldCommand(words);
  CLI::App* app = parent.add_subcommand(std::string(words.substr(words.rfind(' ') + 1)), std::string(command.help));
  if (command.hidden) app->group("");
  return app;
}

void AddHeld(CLI::App& parent, Context& context, const std::string& words) {
  const auto held = context.program->held.find(words);
  if (held != context.program->held.end()) return held->second(parent, context);
  // The other program parses everything behind the subcommand, --help too.
  CLI::App* app = AddHeldCommand(parent, words);
  app->set_help_flag();
  app->fallthrough(false);
  app->prefix_command();
  app->callback([&context, words] { context.Finish(BecomeProgram(FindHeldCommand(words).program, context.argv)); });
}

int RunCommandLine(int argc, const char* const* argv, const Program& program) {
  // A reader that went away (`lightcone scroll ... | head`) is an error of a write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App root(
      "Lightcone: a vector retrieval server in which a new embedding model goes live the minute it is trained",
      "lightcone");
  root.footer(
      "Exit codes: 0 done, 1 failure, 2 wrong flag or value, 3 not found, 4 no server or no answer in time,\n"
      "5 refused in this state, 6 a limit or overload, 130 interrupted, 141 the reader of the output went away.");
  Context context;
  context.program = &program;
  context.argv = argv;
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
