// What a test and the library that it preloads into a process share: a file of this layout, mapped by both. The test
// chooses which calls on files of one folder fail; the library counts and fails. Plain C types, so that the library
// needs nothing.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace lightcone {

enum DiskCall : uint32_t {
  kCallWrite,     // write, pwrite, writev, pwritev, copy_file_range, sendfile
  kCallSync,      // fsync, fdatasync, sync_file_range
  kCallRename,    // rename
  kCallOpen,      // open of what is there, opendir
  kCallCreate,    // open that may create a file
  kCallRead,      // read, pread, readv, preadv
  kCallAllocate,  // fallocate, posix_fallocate
  kCallTruncate,  // truncate, ftruncate
  kCallLink,      // link, symlink
  kCallRemove,    // unlink, rmdir, remove
  kCallMakeFolder,
  kDiskCalls
};
inline constexpr const char* kDiskCallNames[kDiskCalls] = {
    "write", "sync", "rename", "open", "create", "read", "allocate", "truncate", "link", "remove", "make a folder"};

// A set of calls: bit n stands for the DiskCall n.
using DiskCallSet = uint32_t;
constexpr DiskCallSet SetOf(DiskCall call) { return DiskCallSet{1} << call; }
inline constexpr DiskCallSet kAllCalls = (DiskCallSet{1} << kDiskCalls) - 1;
// What fails on a full disk. Names can still be removed from it, and files read.
inline constexpr DiskCallSet kCallsOfFullDisk =
    kAllCalls & ~(SetOf(kCallOpen) | SetOf(kCallRead) | SetOf(kCallTruncate) | SetOf(kCallRemove));

// The library numbers the calls in `numbered`, from `next` on. A call whose number is among the `count` numbers from
// `first` on fails if it is in `failing`, and stderr tells of it.
struct DiskFaults {
  std::atomic<uint64_t> seen[kDiskCalls];  // number of calls so far
  std::atomic<DiskCallSet> numbered;
  std::atomic<DiskCallSet> failing;  // a part of `numbered`
  std::atomic<uint64_t> next;
  std::atomic<uint64_t> first;
  std::atomic<uint64_t> count;     // 0: no call fails
  std::atomic<int32_t> error;      // errno of a call that fails
  std::atomic<uint32_t> torn;      // 1: a write that fails has written half of its bytes
  std::atomic<uint64_t> failed;    // number of calls that failed
  std::atomic<uint32_t> unsynced;  // 1: a sync that does not fail is not made, where no power fails
};

inline constexpr char kFaultsFolder[] = "LIGHTCONE_FAULTS_FOLDER";  // environment: folder whose files fail
inline constexpr char kFaultsFile[] = "LIGHTCONE_FAULTS_FILE";      // environment: path of the shared file

// Which calls fail from here on, counted from here on. Call it while no other thread does.
inline void ArmFaults(DiskFaults* faults, DiskCallSet numbered, DiskCallSet failing, uint64_t first, uint64_t count,
                      int error, bool torn) {
  faults->count = 0;
  faults->numbered = numbered;
  faults->failing = failing;
  faults->error = error;
  faults->torn = torn ? 1 : 0;
  faults->failed = 0;
  faults->next = 0;
  faults->first = first;
  faults->count = count;
}

// Maps the shared file, which it creates where there is none. Null: it cannot; errno says why. The caller unmaps it.
inline DiskFaults* MapFaults(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* const at = ::ftruncate(fd, sizeof(DiskFaults)) != 0
                       ? MAP_FAILED
                       : ::mmap(nullptr, sizeof(DiskFaults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<DiskFaults*>(at);
}

}  // namespace lightcone
