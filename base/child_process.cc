#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"

namespace lightcone {
namespace {

constexpr int kIdleClass = 19;    // least niceness of the idle class
constexpr int kLookEveryMs = 50;  // pause between looks at `cancelled`
// A child that waits for cores gets at most so many times its limit.
constexpr int kStarvedFactorMax = 4;
constexpr size_t kSaidMax = 500;      // longest last line of a program
constexpr int64_t kSaidLook = 4'096;  // length of the end of an output that is read

// Variables that a child has of this process: names, and beginnings of names.
constexpr std::string_view kPassedNames[] = {"PATH=",
                                             "HOME=",
                                             "LANG=",
                                             "LANGUAGE=",
                                             "TZ=",
                                             "TMPDIR=",
                                             "LD_LIBRARY_PATH=",
                                             "GLIBC_TUNABLES=",
                                             "LLVM_PROFILE_FILE="};
constexpr std::string_view kPassedKinds[] = {"LC_",     "OMP_",    "GOMP_", "KMP_",  "MKL_",     "OPENBLAS_",
                                             "DNNL_",   "ONEDNN_", "ATEN_", "TORCH", "PYTORCH_", "CUDA_",
                                             "NVIDIA_", "ASAN_",   "LSAN_", "TSAN_", "UBSAN_"};

bool IsPassed(std::string_view text) {
  const auto begins = [text](std::string_view part) { return text.starts_with(part); };
  return std::any_of(std::begin(kPassedNames), std::end(kPassedNames), begins) ||
         std::any_of(std::begin(kPassedKinds), std::end(kPassedKinds), begins);
}

std::vector<std::string> Environment(const std::vector<std::string>& more) {
  std::map<std::string, std::string> by_name;
  const auto add = [&by_name](const std::string& text) { by_name[text.substr(0, text.find('='))] = text; };
  for (char** at = environ; *at != nullptr; ++at) {
    if (IsPassed(*at)) add(*at);
  }
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
  int talk, output, niceness;  // talk: -1 without a connection
  pid_t parent;
  const sigset_t* signals;
  int64_t memory_bytes_max, file_bytes_max;
  volatile int error = 0;  // error of exec
};

// Between vfork and exec, in the memory of the parent, whose thread stands still: system calls alone.
[[noreturn]] void Become(Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) ::_exit(127);  // The parent ended before the line above.
  // What stops this process, at a terminal or by a supervisor, is not for it: who waits for it ends it, and knows why.
  ::setpgid(0, 0);
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, start.signals, nullptr);
  ::dup2(start.output, STDERR_FILENO);
  if (start.talk >= 0) {
    ::dup2(start.talk, STDIN_FILENO);
    ::dup2(start.talk, STDOUT_FILENO);
  } else {
    ::dup2(start.output, STDOUT_FILENO);
    ::close(STDIN_FILENO);
    ::open("/dev/null", O_RDONLY);
  }
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
#ifndef LIGHTCONE_SANITIZED  // the shadow memory of a sanitizer fits no limit
  if (start.memory_bytes_max > 0) {
    const rlimit limit{static_cast<rlim_t>(start.memory_bytes_max), static_cast<rlim_t>(start.memory_bytes_max)};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
#endif
  if (start.file_bytes_max > 0) {
    const rlimit limit{static_cast<rlim_t>(start.file_bytes_max), static_cast<rlim_t>(start.file_bytes_max)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);  // This process may ignore it.
  }
  // A core of every input that crashes it, as large as its network, would fill the disk.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  // Where memory runs out it is this one that the kernel ends.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY);
  if (score >= 0) {
    (void)!::write(score, "1000", 4);
    ::close(score);
  }
  // Last, for the parent's thread stands still until the program is there. A niceness says how much of a core a process
  // gets, not that it gives way: what wakes beside it may wait for the rest of its slice, milliseconds. One of the idle
  // class gives way whenever it is not within the kernel.
  ::setpriority(PRIO_PROCESS, 0, start.niceness);
  if (start.niceness >= kIdleClass) {
    const sched_param none{};
    ::sched_setscheduler(0, SCHED_IDLE, &none);
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

struct Spawned {
  pid_t pid;
  int end;  // descriptor that is readable once the program has ended; -1 on old kernels
};

// `talk`: what becomes its standard input and output; -1: nothing to read, and output goes where errors go.
absl::StatusOr<Spawned> Spawn(const ChildProgram& program, int talk) {
  std::vector<std::string> words = program.words, environment = Environment(program.environment);
  const std::vector<char*> word_pointers = Pointers(words), environment_pointers = Pointers(environment);
  if (::access(words[0].c_str(), X_OK) != 0) {
    return Unavailable(StrCat("cannot start '", words[0], "': ", ErrnoStatus(errno, "find", words[0]).message()));
  }
  // Appended to: one who cuts it while the program runs gets no hole.
  const int output = ::open(program.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return ErrnoStatus(errno, "open", program.output);
  Start start{
      word_pointers.data(),     environment_pointers.data(), talk, output, program.niceness, ::getpid(), nullptr,
      program.memory_bytes_max, program.file_bytes_max};
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
  return Spawned{pid, static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

// A process gives its memory back at its own priority: seconds a GiB where others keep the cores busy, and who ended it
// waits for it. So this thread does it, where the kernel lets it (Linux 5.15).
void Kill(pid_t pid, int end) {
  ::kill(pid, SIGKILL);
  if (end >= 0) ::syscall(SYS_process_mrelease, end, 0);
}

// How long each thread of a process has waited for a core since it began, nanoseconds; empty where the kernel does not
// count it.
std::map<std::string, int64_t> StarvedThreads(pid_t pid) {
  std::map<std::string, int64_t> waited;
  std::error_code error;
  const std::string tasks = StrCat("/proc/", pid, "/task");
  for (std::filesystem::directory_iterator at(tasks, error), end; !error && at != end; at.increment(error)) {
    std::ifstream file(at->path() / "schedstat");
    int64_t ran = 0, starved = 0;
    if (file >> ran >> starved) waited[at->path().filename().string()] = starved;
  }
  return waited;
}

}  // namespace

absl::StatusOr<int> RunChild(const ChildProgram& program, const std::function<bool()>& cancelled) {
  LC_ASSIGN_OR_RETURN(const Spawned child, Spawn(program, -1));
  const absl::Cleanup close_end = [end = child.end] {
    if (end >= 0) ::close(end);
  };
  while (!HasEnded(child.pid, child.end)) {
    if (!cancelled()) continue;
    Kill(child.pid, child.end);
    Reap(child.pid);
    return MakeStatus(absl::StatusCode::kCancelled, "the program was stopped");
  }
  const int code = Reap(child.pid);
  if (code < 0) {
    return Internal(StrCat("nobody knows how '", program.words[0], "' ended: this process ignores its children"));
  }
  return code;
}

absl::StatusOr<std::unique_ptr<TalkingChild>> TalkingChild::Start(const ChildProgram& program) {
  int sockets[2];
  // One connection for both ways: writing to a socket whose other side is gone need not raise SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return ErrnoStatus(errno, "make a connection to", program.words[0]);
  }
  const absl::StatusOr<Spawned> child = Spawn(program, sockets[1]);
  ::close(sockets[1]);
  if (!child.ok()) ::close(sockets[0]);
  LC_RETURN_IF_ERROR(child.status());
  return std::unique_ptr<TalkingChild>(new TalkingChild(child->pid, child->end, sockets[0]));
}

void TalkingChild::Allow(absl::Duration limit, std::function<bool()> cancelled) {
  begun_ = std::chrono::steady_clock::now();
  limit_ = limit;
  cancelled_ = std::move(cancelled);
  starved_.reset();
}

absl::Status TalkingChild::Await(short events) {
  for (;;) {
    if (cancelled_()) return MakeStatus(absl::StatusCode::kCancelled, "the program was stopped");
    pollfd ready{socket_, events, 0};
    const bool is_ready = ::poll(&ready, 1, kLookEveryMs) > 0;
    const absl::Duration took = absl::FromChrono(std::chrono::steady_clock::now() - begun_);
    if (is_ready && took < limit_) return absl::OkStatus();
    // Not in Allow: this reads a file a thread, and most answers come sooner.
    if (!starved_) starved_ = StarvedThreads(pid_);
    if (took < limit_) continue;
    int64_t starved = 0;
    for (const auto& [thread, now] : StarvedThreads(pid_)) {
      const auto before = starved_->find(thread);
      starved += now - (before == starved_->end() ? 0 : before->second);  // Threads may work and wait by turns.
    }
    // Many threads that wait for few cores add up to more than the time that passed: a bound holds in any case.
    if (took < kStarvedFactorMax * limit_ && took - absl::Nanoseconds(starved) < limit_) {
      if (is_ready) return absl::OkStatus();
      continue;
    }
    return DeadlineExceeded(StrCat("took longer than ", absl::ToDoubleSeconds(limit_), " s"));
  }
}

absl::Status TalkingChild::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    LC_RETURN_IF_ERROR(Await(POLLOUT));
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return Aborted("the program does not listen any more");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status TalkingChild::Read(char* out, size_t bytes) {
  while (bytes > 0) {
    LC_RETURN_IF_ERROR(Await(POLLIN));
    const ssize_t got = ::recv(socket_, out, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Aborted("the program does not answer any more");
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

bool TalkingChild::Gone() const {
  if (pid_ < 0) return true;
  char byte = 0;
  const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

int TalkingChild::End(absl::Duration patience) {
  if (pid_ < 0) return code_;
  for (int64_t waited = 0; waited < absl::ToInt64Milliseconds(patience) && !HasEnded(pid_, end_);
       waited += kLookEveryMs) {
  }
  Kill(-pid_, end_);  // The whole process group; an ended one stays as it is.
  code_ = Reap(pid_);
  pid_ = -1;
  ::close(socket_);
  if (end_ >= 0) ::close(end_);
  return code_;
}

std::string LastWords(const std::string& output) {
  std::ifstream file(output, std::ios::binary | std::ios::ate);
  const int64_t bytes = file ? static_cast<int64_t>(file.tellg()) : 0;
  std::string said(static_cast<size_t>(std::clamp<int64_t>(bytes, 0, kSaidLook)), '\0');
  file.seekg(bytes - static_cast<int64_t>(said.size()));
  file.read(said.data(), static_cast<std::streamsize>(said.size()));
  said.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  said.erase(said.find_last_not_of(" \t\r\n") + 1);
  said.erase(0, said.find_last_of("\r\n") + 1);
  if (said.size() > kSaidMax) {
    said.erase(0, said.size() - kSaidMax);
    while (!said.empty() && (said[0] & 0xc0) == 0x80) said.erase(0, 1);  // rest of a character whose begin is cut off
  }
  return CleanUtf8(said);
}

}  // namespace lightcone
