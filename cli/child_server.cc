#include "cli/child_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone::cli {
namespace {

constexpr char kReady[] = "lightcone ready ";

std::string EndOfLog(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return "(no log)";
  return text->size() > 800 ? text->substr(text->size() - 800) : *text;
}

// Reads lines until the ready line. `fd` is the server's standard output.
absl::StatusOr<std::string> AwaitReadyLine(int fd, absl::Time deadline) {
  std::string text;
  std::array<char, 512> buffer;
  while (true) {
    const size_t at = text.find(kReady);
    if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
      return text.substr(at, text.find('\n', at) - at);
    }
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left_ms <= 0) return DeadlineExceeded("the server did not say that it is ready in time");
    pollfd poll_fd{fd, POLLIN, 0};
    if (::poll(&poll_fd, 1, static_cast<int>(left_ms)) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "poll", "server output");
    }
    if (poll_fd.revents == 0) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) return Unavailable("the server ended before it was ready");
    if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
  }
}

std::string ValueAfter(const std::string& line, const std::string& name) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return "";
}

// In the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void ExecServer(char* const* arguments, int out, int log, pid_t parent, bool outlives_parent) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (outlives_parent) {
    ::setpgid(0, 0);  // An interrupt at the terminal does not reach the child.
  } else {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // The parent ended before the line above.
  }
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildServer>> ChildServer::Start(const std::string& binary, const std::string& folder,
                                                                const std::vector<std::string>& extra,
                                                                absl::Duration patience, bool outlives_us) {
  std::vector<std::string> words = {binary,     "serve",       "--data",        folder,
                                    "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"};
  words.insert(words.end(), extra.begin(), extra.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const std::string log_path = folder + ".log";
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return ErrnoStatus(errno, "open", log_path);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    ::close(log);
    return ErrnoStatus(errno, "pipe", "server output");
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) ExecServer(arguments.data(), ends[1], log, parent, outlives_us);
  ::close(ends[1]);
  ::close(log);
  if (pid < 0) {
    ::close(ends[0]);
    return ErrnoStatus(errno, "fork", binary);
  }
  absl::StatusOr<std::string> line = AwaitReadyLine(ends[0], absl::Now() + patience);
  ::close(ends[0]);
  std::unique_ptr<ChildServer> server(new ChildServer(pid, "", ""));
  if (!line.ok()) {
    server->Kill();
    return Annotate(line.status(), StrCat("start server (log: ", EndOfLog(log_path), ")"));
  }
  server->address_ = ValueAfter(*line, "grpc");
  server->http_address_ = ValueAfter(*line, "http");
  return server;
}

ChildServer::~ChildServer() {
  if (pid_ > 0) Terminate();
}

void ChildServer::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  int state = 0;
  while (::waitpid(pid_, &state, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

int ChildServer::Terminate() {
  if (pid_ <= 0) return 0;
  ::kill(pid_, SIGTERM);
  int state = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (true) {
    const pid_t ended = ::waitpid(pid_, &state, WNOHANG);
    if (ended == pid_) break;
    if (absl::Now() > deadline) {
      Kill();
      return 128 + SIGKILL;
    }
    ::usleep(10'000);
  }
  pid_ = -1;
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

}  // namespace lightcone::cli
