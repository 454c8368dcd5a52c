#include "base/call_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

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

// What a process below folders may call besides: Landlock says which files these reach. None of them changes whom a
// file belongs to or who may use it, and none makes a link, a device or a pipe.
constexpr uint32_t kFileCalls[] = {
    SYS_newfstatat, SYS_statx,     SYS_fstatfs,   SYS_getdents64, SYS_faccessat,       SYS_faccessat2,
    SYS_readlinkat, SYS_getcwd,    SYS_mkdirat,   SYS_unlinkat,   SYS_renameat2,       SYS_fsync,
    SYS_fdatasync,  SYS_ftruncate, SYS_fallocate, SYS_fadvise64,  SYS_copy_file_range, SYS_uname,
#if defined(__x86_64__) || defined(__aarch64__)
    SYS_renameat,
#endif
#if defined(__x86_64__)
    SYS_stat,       SYS_lstat,     SYS_access,    SYS_readlink,   SYS_mkdir,           SYS_rmdir,
    SYS_unlink,     SYS_rename,
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
  // Refuses a call whose argument has these bits; what follows decides about others.
  void RefuseIf(uint32_t call, Part part) {
    Compare(BPF_JEQ, call, 0, 4);
    Load(part.at);
    Add(BPF_ALU | BPF_AND | BPF_K, part.mask);
    Compare(BPF_JEQ, part.value, 0, 1);
    Return(kRefused);
    Load(offsetof(seccomp_data, nr));
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

absl::Status Unfit(std::string_view why, int error) {
  return FailedPrecondition(StrCat(why, error == 0 ? "" : StrCat(": ", std::strerror(error))));
}

}  // namespace

std::vector<sock_filter> MakeCallFilter(CallsAllowed allowed) {
  constexpr uint32_t all = ~uint32_t{0};
  Filter filter;
  for (const uint32_t call : kCalls) filter.Answer(call, kAllowed);
  filter.AllowIf(SYS_mmap, {{LowHalf(3), MAP_SHARED, 0}});  // No limit counts memory that is shared.
  filter.Answer(SYS_clone3, kUnknown);  // Its flags are out of reach: the C library takes clone then.
  filter.AllowIf(SYS_clone, {{LowHalf(0), kThread | kNoThread, kThread}});
  filter.AllowIf(SYS_tgkill, {{LowHalf(0), all, static_cast<uint32_t>(::getpid())}});  // abort()
  filter.AllowIf(SYS_prlimit64,
                 {{LowHalf(0), all, 0}, {LowHalf(2), all, 0}, {HighHalf(2), all, 0}});  // its own limits, to read
  filter.AllowIfOneOf(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME});
#if defined(__x86_64__)
  // ARCH_GET_XCOMP_SUPP, ARCH_GET_XCOMP_PERM, ARCH_REQ_XCOMP_PERM: registers for matrices.
  filter.AllowIfOneOf(SYS_arch_prctl, 0, {0x1021, 0x1022, 0x1023});
#endif
  if (allowed == CallsAllowed::kOpenDescriptors) {
    filter.AllowIfOneOf(SYS_fcntl, 1, {F_GETFD, F_GETFL});
    return std::move(filter).Finish();
  }
  for (const uint32_t call : kFileCalls) filter.Answer(call, kAllowed);
  filter.AllowIfOneOf(SYS_fcntl, 1, {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC});
  // Older Landlocks let a file be cut that is opened to be read.
  filter.RefuseIf(SYS_openat, {LowHalf(2), O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC});
  filter.Answer(SYS_openat, kAllowed);
  return std::move(filter).Finish();
}

absl::Status CanFilterCalls() {
#ifdef LIGHTCONE_SANITIZED
  return Unfit("this build has a sanitizer, which needs more than a process that is locked in has", 0);
#endif
  if (kArchitecture == 0) return Unfit("there is no list of system calls for this processor", 0);
  const uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) return absl::OkStatus();
  return Unfit("the kernel filters no system calls (seccomp)", errno);
}

absl::Status FilterCalls(CallsAllowed allowed) {
  LC_RETURN_IF_ERROR(CanFilterCalls());
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Unfit("the kernel keeps new privileges allowed", errno);
  std::vector<sock_filter> steps = MakeCallFilter(allowed);
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  // Of all threads: those that the tensor library has started, too.
  const long left = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (left != 0) return Unfit("the kernel takes no filter of system calls", left < 0 ? errno : 0);
  return absl::OkStatus();
}

}  // namespace lightcone
