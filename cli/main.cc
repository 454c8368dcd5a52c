// `lightcone`: one program, one file a subcommand.
#include <algorithm>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "cli/command_line.h"
#include "trainer/waiting.h"

int main(int argc, char** argv) {
  // Debian builds Abseil without NDEBUG: each lock of a mutex, and gRPC has many, would go through a global graph that
  // looks for deadlocks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The subcommands that run an encoder; the others are not worth starting the program twice.
  const bool runs_encoder = std::any_of(argv, argv + argc, [](std::string_view word) {
    return word == "adapt" || word == "demo" || word == "embed" || word == "embed-worker" || word == "eval" ||
           word == "experiment" || word == "serve" || word == "train";
  });
  if (runs_encoder) lightcone::WaitPassively(argv);
  return lightcone::cli::RunCommandLine(argc, argv);
}
