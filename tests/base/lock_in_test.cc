// A process that has locked itself in, tried in a child of the test: what the kernel refuses it, and what it still
// does.
#include "base/lock_in.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr bool kSanitized =
#ifdef LIGHTCONE_SANITIZED
    true;
#else
    false;
#endif

// Ends this process, a child of the test, as failed.
void Need(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: errno %d\n", what.c_str(), errno);
  ::_exit(1);
}

void NeedRefused(long result, const std::string& what) { Need(result == -1 && errno == EPERM, what); }

void NeedFilesRefused(const std::string& folder) {
  const std::string path = folder + "/file", other = folder + "/other";
  const char* const file = path.c_str();
  const char* const free = other.c_str();
  char text[16];
  struct stat status;
  NeedRefused(::open(file, O_RDONLY), "open");
  NeedRefused(::open(free, O_WRONLY | O_CREAT, 0600), "create");
  NeedRefused(::open("/dev/urandom", O_RDONLY), "open a device");
  NeedRefused(::syscall(SYS_openat2, AT_FDCWD, file, nullptr, 0), "openat2");
  NeedRefused(::stat(file, &status), "stat");
  NeedRefused(::access(file, R_OK), "access");
  NeedRefused(::readlink(file, text, sizeof(text)), "readlink");
  NeedRefused(::rename(file, free), "rename");
  NeedRefused(::unlink(file), "unlink");
  NeedRefused(::link(file, free), "link");
  NeedRefused(::symlink(file, free), "symlink");
  NeedRefused(::mkdir(free, 0700), "mkdir");
  NeedRefused(::rmdir(folder.c_str()), "rmdir");
  NeedRefused(::chmod(file, 0777), "chmod");
  NeedRefused(::chown(file, 0, 0), "chown");
  NeedRefused(::truncate(file, 0), "truncate");
  NeedRefused(::ftruncate(STDERR_FILENO, 0), "ftruncate");
  NeedRefused(::fchmod(STDERR_FILENO, 0777), "fchmod");
  NeedRefused(::chdir("/"), "chdir");
  NeedRefused(::syscall(SYS_memfd_create, "name", 0), "memfd_create");
  NeedRefused(::syscall(SYS_mount, "none", "/", "tmpfs", 0, nullptr), "mount");
  NeedRefused(::syscall(SYS_ioctl, STDERR_FILENO, 0x5401, text), "ioctl");
  NeedRefused(::syscall(SYS_fcntl, STDERR_FILENO, F_SETOWN, ::getppid()), "F_SETOWN, which sends signals");
}

void NeedConnectionsRefused() {
  int pair[2];
  NeedRefused(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  NeedRefused(::socket(AF_UNIX, SOCK_STREAM, 0), "socket of this machine");
  NeedRefused(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
  NeedRefused(::connect(STDERR_FILENO, nullptr, 0), "connect");
  NeedRefused(::bind(STDERR_FILENO, nullptr, 0), "bind");
  NeedRefused(::send(STDERR_FILENO, "x", 1, 0), "send");
  NeedRefused(::recvmsg(STDERR_FILENO, nullptr, 0), "recvmsg, which takes descriptors");
  NeedRefused(::syscall(SYS_io_uring_setup, 1, nullptr), "io_uring_setup");
}

void NeedProcessesRefused() {
  char program[] = "/bin/true";
  char* const words[] = {program, nullptr};
  NeedRefused(::execve(program, words, words), "execve");
  NeedRefused(::syscall(SYS_execveat, AT_FDCWD, program, words, words, 0), "execveat");
  NeedRefused(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), "a process");
  NeedRefused(::syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0, 0), "a namespace");
  Need(::syscall(SYS_clone3, nullptr, 0) == -1 && errno == ENOSYS, "clone3");
  NeedRefused(::kill(::getppid(), 0), "kill");
  NeedRefused(::kill(-1, 0), "kill all");
  NeedRefused(::syscall(SYS_tkill, ::getppid(), 0), "tkill");
  NeedRefused(::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0), "tgkill");
  NeedRefused(::syscall(SYS_rt_sigqueueinfo, ::getppid(), 0, nullptr), "rt_sigqueueinfo");
  NeedRefused(::syscall(SYS_pidfd_open, ::getppid(), 0), "pidfd_open");
  NeedRefused(::syscall(SYS_ptrace, 16, ::getppid(), 0, 0), "ptrace");
  NeedRefused(::syscall(SYS_process_vm_readv, ::getppid(), nullptr, 0, nullptr, 0, 0), "process_vm_readv");
  NeedRefused(::syscall(SYS_process_vm_writev, ::getppid(), nullptr, 0, nullptr, 0, 0), "process_vm_writev");
  NeedRefused(::syscall(SYS_unshare, CLONE_NEWUSER), "unshare");
  NeedRefused(::syscall(SYS_setns, STDERR_FILENO, 0), "setns");
  NeedRefused(::syscall(SYS_bpf, 0, nullptr, 0), "bpf");
  NeedRefused(::syscall(SYS_keyctl, 0, 0, 0, 0, 0), "keyctl");
  NeedRefused(::syscall(SYS_userfaultfd, 0), "userfaultfd");
  NeedRefused(::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0), "perf_event_open");
  NeedRefused(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, nullptr), "seccomp");
  NeedRefused(::setpriority(PRIO_USER, 0, 19), "setpriority");
  rlimit limit{};
  NeedRefused(::syscall(SYS_prlimit64, ::getppid(), RLIMIT_CORE, nullptr, &limit), "prlimit64 of another process");
  NeedRefused(::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, nullptr), "prlimit64 that sets");
  NeedRefused(::prctl(PR_SET_PDEATHSIG, 0), "prctl");
  NeedRefused(::syscall(SYS_init_module, nullptr, 0, ""), "a call that nobody thought of");
#ifdef __x86_64__
  NeedRefused(::syscall(0x40000000 | SYS_getpid), "a call of the x32 ABI");
#endif
}

void NeedWork(const int* pipe) {
  char byte = 0;
  Need(::write(pipe[1], "a", 1) == 1 && ::read(pipe[0], &byte, 1) == 1 && byte == 'a', "a descriptor that is kept");
  std::vector<char> memory(size_t{64} << 20, 'x');
  Need(memory.back() == 'x', "memory");
  int sum = 0;
  std::vector<std::thread> threads;
  std::mutex mu;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      std::vector<char> own(1 << 20);
      std::lock_guard lock(mu);
      sum += static_cast<int>(own.size() >> 20);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Need(sum == 8, "threads");
  Need(std::chrono::system_clock::now().time_since_epoch().count() > 0, "clocks");
  Need(::prctl(PR_SET_NAME, "named") == 0, "a thread's name");
  rlimit limit{};
  Need(::getrlimit(RLIMIT_DATA, &limit) == 0, "its own limits");
  try {
    throw std::string("thrown");
  } catch (const std::string& thrown) {
    Need(thrown == "thrown", "exceptions");
  }
}

// A thread that tries to open a file once it is told to.
class EarlierThread {
 public:
  ~EarlierThread() {
    {
      std::lock_guard lock(mu_);
      told_ = true;
    }
    told_changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mu_;
  std::condition_variable told_changed_;
  bool told_ = false;
  std::thread thread_{[this] {
    std::unique_lock lock(mu_);
    told_changed_.wait(lock, [this] { return told_; });
    NeedRefused(::open("/", O_RDONLY), "a thread that was there before");
  }};
};

// What LockIn takes, in a child of the test whose exit code tells.
void ExpectInChild(const std::function<void()>& check) {
  EXPECT_EXIT(
      {
        check();
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(LockIn, WorksOnThisMachineUnlessTheBuildHasASanitizer) {
  EXPECT_EQ(CanLockIn().ok(), !kSanitized) << CanLockIn();
  if (kSanitized) {
    EXPECT_THAT(MessageOf(CanLockIn()), HasSubstr("sanitizer"));
  }
}

TEST(LockIn, LeavesAProcessItsMemoryItsThreadsAndTheDescriptorsThatItKeepsAndNothingElse) {
  if (kSanitized) return;
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.path() + "/file", "content").ok());
  ExpectInChild([&] {
    int kept[2], closed[2];
    Need(::pipe(closed) == 0 && ::pipe(kept) == 0, "pipes");
    {
      const EarlierThread earlier;
      const absl::Status locked = LockIn(kept);
      Need(locked.ok(), MessageOf(locked));
    }
    for (const int fd : closed) Need(::fcntl(fd, F_GETFD) == -1 && errno == EBADF, "a descriptor that is not kept");
    NeedFilesRefused(folder.path());
    NeedConnectionsRefused();
    NeedProcessesRefused();
    NeedWork(kept);
  });
  EXPECT_EQ(ReadFile(folder.path() + "/file").value_or(""), "content");
}

TEST(LockIn, LetsAProcessEndByItsOwnSignal) {
  if (kSanitized) return;
  EXPECT_EXIT(
      {
        const absl::Status locked = LockIn({});
        Need(locked.ok(), MessageOf(locked));
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "");
}

TEST(LockIn, ClosesDescriptorsAlsoWhereItDoesNotWork) {
  ExpectInChild([] {
    int pair[2];
    Need(::pipe(pair) == 0, "a pipe");
    LockIn({&pair[0], 1}).IgnoreError();
    Need(::fcntl(pair[0], F_GETFD) >= 0, "the end that is kept");
    Need(::fcntl(pair[1], F_GETFD) == -1 && errno == EBADF, "the other end");
  });
}

TEST(LockModes, AreNamedAsTheOptionNamesThem) {
  for (const LockMode mode : {LockMode::kAuto, LockMode::kRequire, LockMode::kOff}) {
    LockMode parsed = mode == LockMode::kOff ? LockMode::kAuto : LockMode::kOff;
    EXPECT_TRUE(ParseLockMode(LockModeName(mode), "f", &parsed).ok());
    EXPECT_EQ(parsed, mode);
  }
  LockMode mode = LockMode::kRequire;
  EXPECT_THAT(MessageOf(ParseLockMode("on", "encoder.sandbox", &mode)), HasSubstr("field 'encoder.sandbox' is 'on'"));
  EXPECT_EQ(mode, LockMode::kRequire);
}

}  // namespace
}  // namespace lightcone
