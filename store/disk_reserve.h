// Space on the disk that is kept for deletes and for operators. A file of the store's folder holds it while the disk
// has room. New data is refused before the disk is full, and what is not new data may use the file's space. The
// reserve is rebuilt once there is room. Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace lightcone {

inline constexpr char kReserveName[] = "RESERVE";

class DiskReserve {
 public:
  // `bytes`: size of the reserve; 0: nothing is kept and nothing refused. `free_bytes`: for tests, in place of what the
  // file system of `folder` has free for this process.
  DiskReserve(const std::string& folder, int64_t bytes, std::function<int64_t()> free_bytes = {});

  // Makes the reserve whole where the disk has room for it. Cheap while it is whole. The first call takes over the file
  // of an earlier run.
  void Keep() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK where `bytes` of new data are welcome. RESOURCE_EXHAUSTED names the free bytes and the needed ones.
  absl::Status CheckGrowth(uint64_t bytes) const;

  // Gives the reserve up where the disk has hardly more than `bytes` free.
  void MakeRoom(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t held_bytes() const { return held_.load(); }  // bytes of the file; 0 while the reserve is in use

 private:
  int64_t Free() const;

  const std::string path_;
  const int64_t bytes_;
  const std::function<int64_t()> free_bytes_;
  absl::Mutex mutex_;
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;  // the log has told why there is no file
  std::atomic<int64_t> held_{0};
};

}  // namespace lightcone
