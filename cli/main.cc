// `lightcone`: the command line of a server and its clients, and the server itself. No libtorch.
#include <algorithm>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "base/programs.h"
#include "cli/command_line.h"
#include "server/app/repair.h"
#include "server/app/serve.h"

int main(int argc, char** argv) {
  using namespace lightcone;
  // Debian builds Abseil without NDEBUG: each lock of a mutex, and gRPC has many, would go through a global graph that
  // looks for deadlocks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // FAISS builds lists with OpenMP.
  if (std::find(argv, argv + argc, std::string_view("serve")) != argv + argc) WaitPassively(argv);
  cli::Program program;
  program.serve = [](const server::ServerConfig& config) { return server::RunServer(config, {}); };
  program.repair = &server::RunRepair;
  return cli::RunCommandLine(argc, argv, program);
}
