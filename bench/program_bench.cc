// What starting the program costs: a command that asks nobody, and a server without items.
#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

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
};

absl::StatusOr<pid_t> Start(const std::string& binary, const std::vector<std::string>& words, int output) {
  std::vector<std::string> held = words;
  std::vector<char*> arguments;
  for (std::string& word : held) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, binary.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Unavailable(StrCat("start '", binary, "': ", std::strerror(error)));
  return pid;
}

absl::StatusOr<rusage> AwaitEnd(pid_t pid) {
  int ended = 0;
  rusage used = {};
  while (::wait4(pid, &ended, 0, &used) < 0) {
    if (errno != EINTR) return Internal(StrCat("wait for process ", pid, ": ", std::strerror(errno)));
  }
  if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) return Internal("the program failed");
  return used;
}

absl::StatusOr<Run> RunVersion(const std::string& binary) {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<pid_t> pid = Start(binary, {binary, "version"}, nowhere);
  ::close(nowhere);
  LC_RETURN_IF_ERROR(pid.status());
  LC_ASSIGN_OR_RETURN(const rusage used, AwaitEnd(*pid));
  const double wall = SecondsSince(begin);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return Run{1e3 * wall, 1e3 * (seconds(used.ru_utime) + seconds(used.ru_stime))};
}

// Peak memory of a command whose answer fills a pipe: while it waits for a reader, its status can be read. What the
// system tells of a process that has ended counts the memory of this program, too, from which it was started.
absl::StatusOr<double> PeakOfHelp(const std::string& binary) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Internal(StrCat("pipe: ", std::strerror(errno)));
  const int room = ::fcntl(ends[1], F_SETPIPE_SZ, 1);  // the least that there is: a page
  const absl::StatusOr<pid_t> pid = Start(binary, {binary, "serve", "--help"}, ends[1]);
  ::close(ends[1]);
  absl::StatusOr<int64_t> peak = Internal("the memory was not read");
  if (pid.ok()) {
    // A line that does not fit waits for room, too.
    for (int waiting = 0; waiting < room / 2 && ::ioctl(ends[0], FIONREAD, &waiting) == 0;) std::this_thread::yield();
    peak = MemoryOf(*pid, "VmHWM");
    char bytes[4096];
    while (::read(ends[0], bytes, sizeof bytes) > 0) continue;
    LC_RETURN_IF_ERROR(AwaitEnd(*pid).status());
  }
  ::close(ends[0]);
  LC_RETURN_IF_ERROR(pid.status());
  LC_RETURN_IF_ERROR(peak.status());
  return static_cast<double>(*peak) / kMiB;
}

}  // namespace

absl::Status BenchPrograms(const BenchOptions& options, Report& report) {
  std::vector<double> wall, cpu, peak, ready, resident;
  for (int round = 0; round <= kRounds; ++round) {  // The first fills the page cache.
    LC_ASSIGN_OR_RETURN(const Run run, RunVersion(options.server_binary));
    LC_ASSIGN_OR_RETURN(const double peak_mib, PeakOfHelp(options.server_binary));
    const Clock::time_point begin = Clock::now();
    LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/empty-server"));
    const double seconds = SecondsSince(begin);
    LC_ASSIGN_OR_RETURN(const int64_t bytes, MemoryOf(server->pid(), "VmRSS"));
    if (round == 0) continue;
    wall.push_back(run.wall_ms);
    cpu.push_back(run.cpu_ms);
    peak.push_back(peak_mib);
    ready.push_back(seconds);
    resident.push_back(static_cast<double>(bytes) / kMiB);
  }
  report.AddAtMost("lightcone version", Median(wall), "ms", 50, Spread(wall));
  report.AddAtMost("lightcone version, processor time", Median(cpu), "ms", 50, Spread(cpu));
  report.AddAtMost("lightcone serve --help, peak memory", Median(peak), "MiB", 30, Spread(peak));
  report.AddAtMost("empty server, from its start until it is ready", Median(ready), "s", 0.3, Spread(ready));
  report.AddAtMost("empty server, memory", Median(resident), "MiB", 60, Spread(resident));
  return absl::OkStatus();
}

}  // namespace lightcone::bench
