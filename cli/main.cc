// `lightcone`: one program, one file a subcommand.
#include <algorithm>
#include <string_view>

#include "cli/command_line.h"
#include "trainer/waiting.h"

int main(int argc, char** argv) {
  // The subcommands that run an encoder; the others are not worth starting the program twice.
  const bool runs_encoder = std::any_of(argv, argv + argc, [](std::string_view word) {
    return word == "demo" || word == "train" || word == "eval" || word == "serve";
  });
  if (runs_encoder) lightcone::WaitPassively(argv);
  return lightcone::cli::RunCommandLine(argc, argv);
}
