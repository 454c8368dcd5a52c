#include "index/rows/disk_pace.h"

#include <algorithm>
#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lightcone {
namespace {

// A check is for damage that has been there since the last start: it has time, and searches want the disk.
constexpr int64_t kCheckBytesPerSecond = 128 << 20;
constexpr absl::Duration kPaceSleepMax = absl::Milliseconds(20);

using Clock = std::chrono::steady_clock;  // A wall clock that is set would hold the work, or let it all through.

class Pace {
 public:
  void Await(size_t bytes, int64_t bytes_per_second, absl::FunctionRef<bool()> hurry) {
    if (hurry()) return;
    const Clock::time_point wait_for = Take(bytes, bytes_per_second);
    for (Clock::time_point now = Clock::now(); now < wait_for && !hurry(); now = Clock::now()) {
      absl::SleepFor(std::min(kPaceSleepMax, absl::FromChrono(wait_for - now)));
    }
  }

 private:
  // When the disk may be used again after these bytes.
  Clock::time_point Take(size_t bytes, int64_t bytes_per_second) {
    const std::chrono::duration<double> cost(static_cast<double>(bytes) / static_cast<double>(bytes_per_second));
    absl::MutexLock lock(&mu_);
    free_at_ = std::max(free_at_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(cost);
    return free_at_;
  }

  absl::Mutex mu_;
  Clock::time_point free_at_ ABSL_GUARDED_BY(mu_) = Clock::time_point::min();
};

Pace& CheckPace() {
  static Pace* const pace = new Pace;
  return *pace;
}

Pace& BuildPace() {
  static Pace* const pace = new Pace;
  return *pace;
}

}  // namespace

void AwaitCheckPace(size_t bytes, absl::FunctionRef<bool()> hurry) {
  CheckPace().Await(bytes, kCheckBytesPerSecond, hurry);
}

void AwaitBuildPace(size_t bytes, int64_t bytes_per_second_max, absl::FunctionRef<bool()> hurry) {
  if (bytes_per_second_max > 0) BuildPace().Await(bytes, bytes_per_second_max, hurry);
}

}  // namespace lightcone
