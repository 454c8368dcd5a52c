// `lightcone-model`: what runs encoders and trainers. `lightcone` starts it for its subcommands of that kind.
#include "absl/synchronization/mutex.h"
#include "base/programs.h"
#include "cli/model/commands.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // the setting of cli/main.cc
  lightcone::WaitPassively(argv);
  return lightcone::cli::RunCommandLine(argc, argv, {lightcone::cli::ModelCommands()});
}
