#include "server/app/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <memory>
#include <thread>

#include "base/files.h"
#include "base/status.h"
#include "server/app/log.h"

namespace lightcone::server {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP};  // that end the server

// What the signal handler may touch. Libraries start threads before main, so signals are not masked but handled on
// whichever thread they come to; the handler only counts and writes one byte.
std::atomic<int> signals_seen{0};
std::atomic<int> signal_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void OnSignal(int signal) {
  if (signals_seen.fetch_add(1) >= 1) _exit(128 + signal);
  const int saved = errno;
  const char byte = static_cast<char>(signal);
  const ssize_t written = write(signal_pipe.load(), &byte, 1);
  static_cast<void>(written);
  errno = saved;
}

// Owns the pipe and the handlers; puts the old handlers back.
class SignalWait {
 public:
  absl::Status Install() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoStatus(errno, "pipe", "signals");
    signals_seen.store(0);
    signal_pipe.store(ends_[1]);
    struct sigaction action = {};
    action.sa_handler = &OnSignal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], nullptr, &old_[i]);
      // A hangup that is ignored at the start, as `nohup` does it, stays ignored: the server outlives its terminal.
      if (kSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN) continue;
      sigaction(kSignals[i], &action, nullptr);
    }
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, nullptr);
    installed_ = true;
    return absl::OkStatus();
  }

  ~SignalWait() {
    if (!installed_) return;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &old_[i], nullptr);
    close(ends_[0]);
    close(ends_[1]);
  }

  // The number of the signal that came; 0 where `until` became readable before one did.
  int Wait(int until = -1) {
    for (;;) {
      pollfd ready[] = {{ends_[0], POLLIN, 0}, {until, POLLIN, 0}};  // a negative one is left out
      poll(ready, 2, -1);
      char byte = 0;
      if (read(ends_[0], &byte, 1) == 1) return byte;
      if (ready[1].revents != 0) return 0;
    }
  }

 private:
  int ends_[2] = {-1, -1};
  bool installed_ = false;
  struct sigaction old_[std::size(kSignals)] = {};
};

// While it lives, a signal ends the process at once: to open a data folder can take minutes and looks at no signal, no
// call is taken yet, and to cut it is as safe as a crash.
class StartWatch {
 public:
  explicit StartWatch(SignalWait* signals) {
    if (pipe2(ends_, O_CLOEXEC) != 0) return;  // as without it: the signal is seen once the start is through
    thread_ = std::thread([this, signals] {
      const int signal = signals->Wait(ends_[0]);
      if (signal == 0) return;
      LogInfo(StrCat("signal ", signal, " during the start: it ends here, before any call was taken"));
      _exit(128 + signal);
    });
  }
  ~StartWatch() {
    if (ends_[1] < 0) return;
    close(ends_[1]);  // the other end becomes readable
    thread_.join();
    close(ends_[0]);
  }

 private:
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace

absl::Status RunServer(const ServerConfig& config, const std::function<void(const Bound&)>& on_ready) {
  SetUpLog(config.log_level, config.log_format);
  ::umask(kPrivateMask);
  SignalWait signals;
  LC_RETURN_IF_ERROR(signals.Install());
  auto watch = std::make_unique<StartWatch>(&signals);
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<RunningServer> server,
                      RunningServer::Start(config, nullptr, [&watch] { watch.reset(); }));
  const Bound& bound = server->bound();
  std::printf("lightcone ready grpc=%s http=%s\n", bound.grpc.c_str(), bound.http.c_str());
  std::fflush(stdout);
  LogInfo(StrCat("ready: version ", ServerVersion(), ", grpc ", bound.grpc, ", http ",
                 bound.http.empty() ? "off" : bound.http, ", data ", config.engine.data_folder));
  if (on_ready) on_ready(bound);
  const int signal = signals.Wait();
  LogInfo(
      StrCat("signal ", signal, ": draining for at most ", config.drain_seconds, " s; a second signal ends at once"));
  const bool idle = server->Stop(absl::Seconds(config.drain_seconds));
  if (!idle) LogWarning("calls still ran at the drain limit and were cancelled");
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace lightcone::server
