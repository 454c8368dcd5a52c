#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <map>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr int kLookEveryMs = 50;  // at `cancelled`
constexpr size_t kSaidMax = 500;  // bytes of what a program said last

std::vector<std::string> Environment(const std::vector<std::string>& more) {
  std::map<std::string, std::string> by_name;
  const auto add = [&by_name](const std::string& text) { by_name[text.substr(0, text.find('='))] = text; };
  for (char** at = environ; *at != nullptr; ++at) add(*at);
  for (const std::string& text : more) add(text);
  std::vector<std::string> all;
  for (auto& [name, text] : by_name) all.push_back(std::move(text));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Signals of this thread wait while it lives: a child between vfork and exec must not run this process's handlers.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  const sigset_t* before() const { return &before_; }

 private:
  sigset_t before_;
};

struct Start {
  char* const* words;
  char* const* environment;
  int output, niceness;
  pid_t parent;
  const sigset_t* signals;
  int64_t memory_bytes_max;
  volatile int error = 0;  // of exec
};

// Between vfork and exec, in the memory of the parent, whose thread stands still: system calls alone.
[[noreturn]] void Become(Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) ::_exit(127);  // it ended before the line above
  // What stops this process, at a terminal or by a supervisor, is not for it: who waits for it ends it, and knows why.
  ::setpgid(0, 0);
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, start.signals, nullptr);
  ::dup2(start.output, STDOUT_FILENO);
  ::dup2(start.output, STDERR_FILENO);
  ::close(STDIN_FILENO);
  ::open("/dev/null", O_RDONLY);
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
  ::setpriority(PRIO_PROCESS, 0, start.niceness);
  if (start.memory_bytes_max > 0) {
    const rlimit limit{static_cast<rlim_t>(start.memory_bytes_max), static_cast<rlim_t>(start.memory_bytes_max)};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
  // Where memory runs out it is this one that the kernel ends.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY);
  if (score >= 0) {
    (void)!::write(score, "1000", 4);
    ::close(score);
  }
  ::execve(start.words[0], start.words, start.environment);
  start.error = errno;
  ::_exit(127);
}

// The exit code; 128 + the signal's number; -1 where somebody else has taken it.
int Reap(pid_t pid) {
  int state = 0;
  while (::waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

// Whether it has ended, which is waited for a little. `end`: readable then; -1 on a kernel without.
bool HasEnded(pid_t pid, int end) {
  pollfd ready{end, POLLIN, 0};
  if (end >= 0) return ::poll(&ready, 1, kLookEveryMs) > 0;
  ::poll(nullptr, 0, kLookEveryMs);
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

}  // namespace

absl::StatusOr<int> RunChild(const ChildProgram& program, const std::function<bool()>& cancelled) {
  std::vector<std::string> words = program.words, environment = Environment(program.environment);
  const std::vector<char*> word_pointers = Pointers(words), environment_pointers = Pointers(environment);
  if (::access(words[0].c_str(), X_OK) != 0) {
    return Unavailable(StrCat("cannot start '", words[0], "': ", ErrnoStatus(errno, "find", words[0]).message()));
  }
  const int output = ::open(program.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) return ErrnoStatus(errno, "open", program.output);
  Start start{word_pointers.data(), environment_pointers.data(), output, program.niceness, ::getpid(), nullptr,
              program.memory_bytes_max};
  pid_t pid = -1;
  int failed = 0;
  {
    const SignalsHeld held;
    start.signals = held.before();
    pid = ::vfork();
    if (pid == 0) Become(start);
    failed = errno;
  }
  ::close(output);
  const auto unavailable = [&](int error) {
    return Unavailable(StrCat("cannot start '", words[0], "': ", MessageOf(ErrnoStatus(error, "start", words[0]))));
  };
  if (pid < 0) return unavailable(failed);
  if (start.error != 0) {
    Reap(pid);
    return unavailable(start.error);
  }
  // (Debian 12 declares pidfd_open for C alone.)
  const int end = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  const absl::Cleanup close_end = [end] {
    if (end >= 0) ::close(end);
  };
  while (!HasEnded(pid, end)) {
    if (!cancelled()) continue;
    ::kill(pid, SIGKILL);
    Reap(pid);
    return MakeStatus(absl::StatusCode::kCancelled, "the program was stopped");
  }
  const int code = Reap(pid);
  if (code < 0) return Internal(StrCat("nobody knows how '", words[0], "' ended: this process ignores its children"));
  return code;
}

std::string LastWords(const std::string& output) {
  std::string said = ReadFile(output).value_or("");
  said.erase(said.find_last_not_of(" \t\r\n") + 1);
  said.erase(0, said.find_last_of("\r\n") + 1);
  return said.size() > kSaidMax ? said.substr(said.size() - kSaidMax) : said;
}

}  // namespace lightcone
