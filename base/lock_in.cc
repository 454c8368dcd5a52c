#include "base/lock_in.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/status.h"

namespace lightcone {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr uint32_t kAllowed = SECCOMP_RET_ALLOW;
constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;
constexpr int kDescriptorsMax = 65'536;  // descriptors that are closed one by one on old kernels

// Whatever is not listed is refused: files by name, sockets, programs, processes, and calls that are yet to come.
constexpr uint32_t kCalls[] = {
    // Descriptors that are open.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_fstat,
    SYS_close,
    SYS_ppoll,
    // Memory.
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    // Threads.
    SYS_futex,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_membarrier,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_gettid,
    SYS_getpid,
    SYS_restart_syscall,
    // Clocks.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    // Its own signals.
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    // What it is and has.
    SYS_getrandom,
    SYS_sysinfo,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    // Its end.
    SYS_exit,
    SYS_exit_group,
#if defined(__x86_64__)
    SYS_poll,
    SYS_time,
#endif
};

// A thread of this process, in its namespaces.
constexpr uint32_t kThread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
constexpr uint32_t kNoThread = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                               CLONE_NEWPID | CLONE_NEWNET | CLONE_PTRACE | CLONE_VFORK;

constexpr uint32_t LowHalf(size_t argument) {  // Both architectures are little endian.
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
}
constexpr uint32_t HighHalf(size_t argument) { return LowHalf(argument) + sizeof(uint32_t); }

// A program of the kernel's packet filter, which looks at a call and answers it.
class Filter {
 public:
  Filter() {
    Load(offsetof(seccomp_data, arch));
    Compare(BPF_JEQ, kArchitecture, 1, 0);
    Return(kRefused);
    Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr uint32_t x32 = 0x40000000;  // bit of the calls of the x32 ABI
    Compare(BPF_JGE, x32, 0, 1);
    Return(kRefused);
#endif
  }

  void Answer(uint32_t call, uint32_t answer) {
    Compare(BPF_JEQ, call, 0, 1);
    Return(answer);
  }
  // Half an argument, `at` in seccomp_data, whose bits in `mask` must be `value`.
  struct Part {
    uint32_t at, mask, value;
  };
  void AllowIf(uint32_t call, std::initializer_list<Part> parts) {
    size_t left = parts.size();
    Compare(BPF_JEQ, call, 0, 3 * left + 2);
    for (const Part& part : parts) {
      --left;
      Load(part.at);
      Add(BPF_ALU | BPF_AND | BPF_K, part.mask);
      Compare(BPF_JEQ, part.value, 0, 3 * left + 1);
    }
    Return(kAllowed);
    Return(kRefused);
  }
  void AllowIfOneOf(uint32_t call, size_t argument, std::initializer_list<uint32_t> values) {
    size_t left = values.size();
    Compare(BPF_JEQ, call, 0, left + 3);
    Load(LowHalf(argument));
    for (const uint32_t value : values) Compare(BPF_JEQ, value, left--, 0);
    Return(kRefused);
    Return(kAllowed);
  }
  std::vector<sock_filter> Finish() && {
    Return(kRefused);
    return std::move(steps_);
  }

 private:
  void Add(uint32_t code, uint32_t value, size_t if_true = 0, size_t if_false = 0) {
    steps_.push_back(
        {static_cast<uint16_t>(code), static_cast<uint8_t>(if_true), static_cast<uint8_t>(if_false), value});
  }
  void Load(uint32_t at) { Add(BPF_LD | BPF_W | BPF_ABS, at); }
  // Steps that are skipped either way.
  void Compare(uint32_t how, uint32_t value, size_t if_true, size_t if_false) {
    Add(BPF_JMP | how | BPF_K, value, if_true, if_false);
  }
  void Return(uint32_t answer) { Add(BPF_RET | BPF_K, answer); }

  std::vector<sock_filter> steps_;
};

std::vector<sock_filter> MakeFilter() {
  constexpr uint32_t all = ~uint32_t{0};
  Filter filter;
  for (const uint32_t call : kCalls) filter.Answer(call, kAllowed);
  filter.Answer(SYS_clone3, kUnknown);  // Its flags are out of reach: the C library takes clone then.
  filter.AllowIf(SYS_clone, {{LowHalf(0), kThread | kNoThread, kThread}});
  filter.AllowIf(SYS_tgkill, {{LowHalf(0), all, static_cast<uint32_t>(::getpid())}});  // abort()
  filter.AllowIf(SYS_prlimit64,
                 {{LowHalf(0), all, 0}, {LowHalf(2), all, 0}, {HighHalf(2), all, 0}});  // its own limits, to read
  filter.AllowIfOneOf(SYS_fcntl, 1, {F_GETFD, F_GETFL});
  filter.AllowIfOneOf(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME});
#if defined(__x86_64__)
  // ARCH_GET_XCOMP_SUPP, ARCH_GET_XCOMP_PERM, ARCH_REQ_XCOMP_PERM: registers for matrices.
  filter.AllowIfOneOf(SYS_arch_prctl, 0, {0x1021, 0x1022, 0x1023});
#endif
  return std::move(filter).Finish();
}

void CloseAllBut(std::span<const int> kept) {
  std::vector<int> sorted(kept.begin(), kept.end());
  std::sort(sorted.begin(), sorted.end());
  unsigned int first = STDERR_FILENO + 1;
  const auto close_up_to = [&first](unsigned int end) {  // the first that stays
    if (first < end && ::close_range(first, end - 1, 0) != 0) {
      for (unsigned int fd = first; fd < std::min<unsigned int>(end, kDescriptorsMax); ++fd) {
        ::close(static_cast<int>(fd));
      }
    }
    first = std::max(first, end + 1);
  };
  for (const int fd : sorted) {
    if (fd >= 0) close_up_to(static_cast<unsigned int>(fd));
  }
  close_up_to(UINT_MAX);
}

absl::Status Unfit(std::string_view why, int error) {
  return FailedPrecondition(StrCat(why, error == 0 ? "" : StrCat(": ", std::strerror(error))));
}

}  // namespace

absl::Status ParseLockMode(std::string_view name, std::string_view field, LockMode* mode) {
  const auto found = std::find(kLockModeNames.begin(), kLockModeNames.end(), name);
  if (found == kLockModeNames.end()) {
    return InvalidField(std::string(field), StrCat("'", name, "'"), "one of auto, require, off");
  }
  *mode = static_cast<LockMode>(found - kLockModeNames.begin());
  return absl::OkStatus();
}

absl::Status CanLockIn() {
#ifdef LIGHTCONE_SANITIZED
  return Unfit("this build has a sanitizer, which needs more than a process that is locked in has", 0);
#endif
  if (kArchitecture == 0) return Unfit("there is no list of system calls for this processor", 0);
  const uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) return absl::OkStatus();
  return Unfit("the kernel filters no system calls (seccomp)", errno);
}

absl::Status LockIn(std::span<const int> kept) {
  CloseAllBut(kept);
  LC_RETURN_IF_ERROR(CanLockIn());
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Unfit("the kernel keeps new privileges allowed", errno);
  std::vector<sock_filter> steps = MakeFilter();
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  // Of all threads: those that the tensor library has started, too.
  const long left = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (left != 0) return Unfit("the kernel takes no filter of system calls", left < 0 ? errno : 0);
  const int opened = ::open("/", O_RDONLY | O_CLOEXEC);
  if (opened < 0 && errno == EPERM) return absl::OkStatus();
  if (opened >= 0) ::close(opened);
  return Unfit("the kernel took a filter of system calls and goes by none", 0);
}

}  // namespace lightcone
