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

// Between vfork and exec, in the memory of the parent, whose thread stands still: system calls alone.
[[noreturn]] void Become(char* const* words, char* const* environment, int output, int niceness, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended before the line above
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::close(STDIN_FILENO);
  ::open("/dev/null", O_RDONLY);
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
  ::setpriority(PRIO_PROCESS, 0, niceness);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve(words[0], words, environment);
  ::_exit(127);
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
  const pid_t parent = ::getpid();
  const pid_t pid = ::vfork();
  if (pid == 0) Become(word_pointers.data(), environment_pointers.data(), output, program.niceness, parent);
  const int failed = errno;
  ::close(output);
  if (pid < 0)
    return Unavailable(StrCat("cannot start '", words[0], "': ", ErrnoStatus(failed, "fork", words[0]).message()));
  const auto reap = [pid] {
    int state = 0;
    while (::waitpid(pid, &state, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  };
  // Readable when it has ended. (Debian 12 declares pidfd_open for C alone.)
  const int end = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  const absl::Cleanup close_end = [end] {
    if (end >= 0) ::close(end);
  };
  for (;;) {
    pollfd ready{end, POLLIN, 0};
    const int seen = end >= 0 ? ::poll(&ready, 1, kLookEveryMs) : ::poll(nullptr, 0, kLookEveryMs);
    if (seen > 0) return reap();
    if (end < 0) {  // a kernel without: look
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid) {
        return reap();
      }
    }
    if (!cancelled()) continue;
    ::kill(pid, SIGKILL);
    reap();
    return MakeStatus(absl::StatusCode::kCancelled, "the program was stopped");
  }
}

}  // namespace lightcone
