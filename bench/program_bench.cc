// What starting the program costs: a command that asks nobody, and a server without items.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/status.h"
#include "bench/benches.h"
#include "cli/child_server.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 21;
constexpr double kMiB = 1 << 20;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Run {
  double wall_ms = 0, cpu_ms = 0;
  double peak_mib = 0;  // largest resident size
};

absl::StatusOr<Run> RunVersion(const std::string& binary) {
  char version[] = "version";
  std::string path = binary;
  char* const words[] = {path.data(), version, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const Clock::time_point begin = Clock::now();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, binary.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Unavailable(StrCat("start '", binary, "': ", std::strerror(error)));
  int ended = 0;
  rusage used = {};
  while (::wait4(pid, &ended, 0, &used) < 0) {
    if (errno != EINTR) return Internal(StrCat("wait for '", binary, "': ", std::strerror(errno)));
  }
  const double wall = SecondsSince(begin);
  if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) return Internal(StrCat("'", binary, " version' failed"));
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return Run{1e3 * wall, 1e3 * (seconds(used.ru_utime) + seconds(used.ru_stime)),
             static_cast<double>(used.ru_maxrss) / 1024};
}

}  // namespace

absl::Status BenchPrograms(const BenchOptions& options, Report& report) {
  std::vector<double> wall, cpu, peak, ready, resident;
  for (int round = 0; round <= kRounds; ++round) {  // The first fills the page cache.
    LC_ASSIGN_OR_RETURN(const Run run, RunVersion(options.server_binary));
    const Clock::time_point begin = Clock::now();
    LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/empty-server"));
    const double seconds = SecondsSince(begin);
    LC_ASSIGN_OR_RETURN(const int64_t bytes, MemoryOf(server->pid(), "VmRSS"));
    if (round == 0) continue;
    wall.push_back(run.wall_ms);
    cpu.push_back(run.cpu_ms);
    peak.push_back(run.peak_mib);
    ready.push_back(seconds);
    resident.push_back(static_cast<double>(bytes) / kMiB);
  }
  report.AddAtMost("lightcone version", Median(wall), "ms", 50, Spread(wall));
  report.AddAtMost("lightcone version, processor time", Median(cpu), "ms", 50, Spread(cpu));
  report.AddAtMost("lightcone version, peak memory", Median(peak), "MiB", 30, Spread(peak));
  report.AddAtMost("empty server, from its start until it is ready", Median(ready), "s", 0.3, Spread(ready));
  report.AddAtMost("empty server, memory", Median(resident), "MiB", 60, Spread(resident));
  return absl::OkStatus();
}

}  // namespace lightcone::bench
