// The whole program behind main(): flags, subcommands, exit code.
#pragma once

namespace lightcone::cli {

// Runs one command line as the process' own and gives its exit code (cli/exit_codes.h). Threads: one at a time.
int RunCommandLine(int argc, const char* const* argv);

}  // namespace lightcone::cli
