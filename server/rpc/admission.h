// Which calls of a lane may wait. A queue is bounded by the time that a call would wait in it, from the measured time
// of calls. While more calls come than are done, a tighter bound holds: a standing queue makes answers late and none of
// them more. A burst, and clients that each wait for an answer, make no standing growth, and keep the wider bound.
// Threads: none of its own; the owner guards it. Times are of the owner's clock, which may jump.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace lightcone::server {

// Bounds of the expected wait. A call that waits no longer than one call takes is within both.
struct WaitBounds {
  absl::Duration wait_max = absl::InfiniteDuration();           // bound at any time; infinite: none
  absl::Duration overload_wait_max = absl::InfiniteDuration();  // bound under overload; infinite: none
};

enum class Refusal {
  kQueueFull,  // As many calls wait as may.
  kWait,       // The wait would pass its bound, or has passed it under overload.
  kDeadline,   // The wait would pass the deadline of the call.
  kExpired,    // The deadline of the call passed while it waited.
};
inline constexpr int kRefusals = 4;

// "queue_full", "wait", "deadline", "expired".
std::string_view RefusalName(Refusal refusal);

class Admission {
 public:
  // REQUIRES: threads >= 1.
  Admission(int threads, const WaitBounds& bounds) : threads_(threads), bounds_(bounds) {}

  // A call comes while all threads are busy and `waiting` others wait: whether it may wait, too. kWait or kDeadline.
  std::optional<Refusal> Offer(absl::Time now, absl::Time deadline, int64_t waiting);
  // A call comes that need not wait.
  void NoteDirect() { ++offered_; }
  // A call that came at `since` is next: whether it is given up, kWait or kDeadline, since it can end in time no more.
  std::optional<Refusal> Take(absl::Time now, absl::Time since, absl::Time deadline);
  // A call ended that took so long on a thread of the lane.
  void NoteEnd(absl::Duration took);

  // Time that one more call would wait behind `waiting` others while all threads are busy.
  absl::Duration ExpectedWait(int64_t waiting) const;
  // The bound of the wait that holds at `now`.
  absl::Duration Bound(absl::Time now) const;
  // A clock that went back does not make overload last longer.
  bool Overloaded(absl::Time now) const;

 private:
  bool bounded() const { return bounds_.wait_max < absl::InfiniteDuration(); }
  void EndWindow(absl::Time now, int64_t waiting);

  const int threads_;
  const WaitBounds bounds_;
  absl::Duration call_time_;  // moving mean of the time of one call on a thread
  // Calls of the present window. A window in which the queue grew beyond the bound is a strike.
  absl::Time window_begin_ = absl::InfinitePast();
  int64_t offered_ = 0, taken_ = 0;
  int strikes_ = 0;
  absl::Time overloaded_until_ = absl::InfinitePast();
};

}  // namespace lightcone::server
