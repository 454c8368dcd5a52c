// The whole program behind main(): flags, subcommands, exit code.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace CLI {
class App;
}
namespace lightcone::server {
struct ServerConfig;
struct RepairReport;
}  // namespace lightcone::server

namespace lightcone::cli {

class Context;

// What one program holds of the subcommands that not every program holds (kHeldCommands in command_line.cc). The
// program runs another program for the rest.
using HeldCommands = std::map<std::string, void (*)(CLI::App& parent, Context& context)>;
struct Program {
  HeldCommands held;                                             // key: the words of the subcommand, as "backfill fit"
  absl::Status (*serve)(const server::ServerConfig&) = nullptr;  // server loop; nullptr: `lightcone` has it
  // Repair of a data folder; nullptr: `lightcone` has it.
  absl::StatusOr<server::RepairReport> (*repair)(const std::string& from, const std::string& to) = nullptr;
};

// Runs one command line as the process' own and gives its exit code (cli/exit_codes.h). Threads: one at a time.
int RunCommandLine(int argc, const char* const* argv, const Program& program);

}  // namespace lightcone::cli
