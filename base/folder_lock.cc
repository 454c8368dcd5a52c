#include "base/folder_lock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/call_filter.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr uint64_t kTruncate = uint64_t{1} << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE of Linux 6.2
constexpr uint64_t kRefer = uint64_t{1} << 13;     // LANDLOCK_ACCESS_FS_REFER of Linux 5.19
constexpr int64_t kReferVersion = 2, kTruncateVersion = 3;
constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr uint64_t kChange = kRead | kWriteFile | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                             LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | kRefer;
constexpr uint64_t kOfFiles = kReadFile | kWriteFile;  // rights that a rule for a single file may have

// What libraries open when they are first used. None of it belongs to the user of the process.
constexpr const char* kSystemPaths[] = {"/usr/share",
                                        "/usr/local/share/fonts",
                                        "/usr/lib",
                                        "/lib",
                                        "/lib64",
                                        "/etc/fonts",
                                        "/etc/localtime",
                                        "/etc/ld.so.cache",
                                        "/proc/cpuinfo",
                                        "/proc/meminfo",
                                        "/proc/sys/vm/overcommit_memory",
                                        "/sys/devices/system",
                                        "/sys/fs/cgroup",
                                        "/dev/urandom"};

absl::Status Unfit(std::string_view why, int error) {
  return FailedPrecondition(StrCat(why, error == 0 ? "" : StrCat(": ", std::strerror(error))));
}

// 0: the kernel has none.
int64_t LandlockVersion() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : version;
}

uint64_t Handled(int64_t version) {
  uint64_t all = kChange | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (version < kReferVersion) all &= ~kRefer;
  if (version < kTruncateVersion) all &= ~kTruncate;
  return all;
}

// A descriptor that is closed when it goes.
struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

absl::Status Allow(int ruleset, const char* path, uint64_t rights) {
  const Descriptor folder(::open(path, O_PATH | O_CLOEXEC | O_DIRECTORY));
  const Descriptor file(folder.fd < 0 ? ::open(path, O_PATH | O_CLOEXEC) : -1);
  if (folder.fd < 0 && file.fd < 0) return absl::OkStatus();
  landlock_path_beneath_attr rule{};
  rule.allowed_access = folder.fd >= 0 ? rights : rights & kOfFiles;
  rule.parent_fd = folder.fd >= 0 ? folder.fd : file.fd;
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0) return absl::OkStatus();
  return Unfit(StrCat("the kernel takes no rule for '", path, "'"), errno);
}

absl::Status BoundFiles(const LockedFolders& folders) {
  const uint64_t handled = Handled(LandlockVersion());
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = handled;
  const Descriptor ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0)));
  if (ruleset.fd < 0) return Unfit("the kernel makes no rules for files", errno);
  for (const char* path : kSystemPaths) LC_RETURN_IF_ERROR(Allow(ruleset.fd, path, kRead & handled));
  LC_RETURN_IF_ERROR(Allow(ruleset.fd, "/dev/null", (kReadFile | kWriteFile) & handled));
  for (const std::string& path : folders.read) LC_RETURN_IF_ERROR(Allow(ruleset.fd, path.c_str(), kRead & handled));
  for (const std::string& path : folders.write) LC_RETURN_IF_ERROR(Allow(ruleset.fd, path.c_str(), kChange & handled));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Unfit("the kernel keeps new privileges allowed", errno);
  if (::syscall(SYS_landlock_restrict_self, ruleset.fd, 0) == 0) return absl::OkStatus();
  return Unfit("the kernel takes no rules for files", errno);
}

// Ends this process as the child ended.
[[noreturn]] void EndAs(pid_t child) {
  int state = 0;
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(state)) ::_exit(WEXITSTATUS(state));
  const int number = WTERMSIG(state);
  ::signal(number, SIG_DFL);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  ::kill(::getpid(), number);
  ::_exit(128 + number);
}

}  // namespace

absl::Status CanLockInBelow() {
  LC_RETURN_IF_ERROR(CanFilterCalls());
  if (LandlockVersion() > 0) return absl::OkStatus();
  return Unfit("the kernel bounds no files to folders (Landlock)", errno);
}

absl::Status GoOnLockedIn(const LockedFolders& folders) {
  LC_RETURN_IF_ERROR(CanLockInBelow());
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  // Landlock bounds the thread that asks for it. A library may have threads by now; a forked child has one.
  const pid_t child = ::fork();
  if (child < 0) return Unfit("no process can be started to be locked in", errno);
  if (child > 0) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);  // The child left one, if it was to.
    EndAs(child);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // The parent ended before the line above.
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
  LC_RETURN_IF_ERROR(BoundFiles(folders));
  LC_RETURN_IF_ERROR(FilterCalls(CallsAllowed::kFilesToo));
  const int opened = ::open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  if (opened < 0) return absl::OkStatus();
  ::close(opened);
  return Unfit("the kernel took rules for files and goes by none", 0);
}

}  // namespace lightcone
