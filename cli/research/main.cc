// `lightcone-research`: studies of training methods, and the completion script, which names every flag.
#include "absl/synchronization/mutex.h"
#include "base/programs.h"
#include "cli/research/commands.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // the setting of cli/main.cc
  lightcone::WaitPassively(argv);
  return lightcone::cli::RunCommandLine(argc, argv, {lightcone::cli::ResearchCommands()});
}
