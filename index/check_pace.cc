#include "index/check_pace.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace lightcone {
namespace {

// A check is for damage that has been there since the last start: it has time, and searches want the disk.
constexpr double kCheckBytesPerSecond = 128 << 20;
constexpr absl::Duration kPaceSleepMax = absl::Milliseconds(20);

absl::Mutex pace_mu(absl::kConstInit);
absl::Time pace_free_at ABSL_GUARDED_BY(pace_mu) = absl::InfinitePast();

// When the disk may be read again after these bytes.
absl::Time TakePace(size_t bytes) {
  absl::MutexLock lock(&pace_mu);
  pace_free_at = std::max(pace_free_at, absl::Now()) + absl::Seconds(static_cast<double>(bytes) / kCheckBytesPerSecond);
  return pace_free_at;
}

}  // namespace

void AwaitCheckPace(size_t bytes, absl::FunctionRef<bool()> hurry) {
  const absl::Time wait_for = TakePace(bytes);
  while (!hurry() && absl::Now() < wait_for) absl::SleepFor(std::min(kPaceSleepMax, wait_for - absl::Now()));
}

}  // namespace lightcone
