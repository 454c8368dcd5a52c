// What a test and the library that it preloads into a server share: a file of this layout, mapped by both. The test
// chooses which call on files of one folder fails; the library counts and fails. Plain C types, so that the library
// needs nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace lightcone {

enum DiskCall : uint32_t { kCallWrite, kCallSync, kCallRename, kCallOpen, kCallRead, kDiskCalls };

struct DiskFaults {
  std::atomic<uint64_t> seen[kDiskCalls];  // number of calls so far
  std::atomic<uint32_t> call;              // the call that fails
  std::atomic<uint64_t> first;             // number of the first call that fails
  std::atomic<uint64_t> count;             // how many calls fail from there on; 0: none
  std::atomic<int32_t> error;              // errno of a call that fails
  std::atomic<uint32_t> torn;              // 1: a write that fails has written half of its bytes
  std::atomic<uint64_t> failed;            // number of calls that failed
};

inline constexpr char kFaultsFolder[] = "LIGHTCONE_FAULTS_FOLDER";  // environment: folder whose files fail
inline constexpr char kFaultsFile[] = "LIGHTCONE_FAULTS_FILE";      // environment: path of the shared file

}  // namespace lightcone
