// A token bucket: so many units a second, and as many at once as one second brings.
// Threads: belongs to whoever holds its owner's mutex.
#pragma once

#include <cstdint>

namespace lightcone::server::auth {

class RateBucket {
 public:
  static constexpr int64_t kRateMax = 4'000'000'000;  // units a second

  // 0: no limit, as at first. A bucket that gets its first rate is full. Another rate leaves what is in the bucket, up
  // to one second's units: it gives nothing back. REQUIRES: 0 <= `per_second` <= kRateMax.
  void SetRate(int64_t per_second, int64_t now_ns);
  int64_t rate() const { return rate_; }

  // Nanoseconds until `units` may be taken; 0: now. More units than one second brings need anything left.
  // REQUIRES: `units` >= 0. Times are of one steady clock.
  int64_t WaitFor(int64_t units, int64_t now_ns);
  // Takes them even if the bucket has fewer, so that later ones wait for what is owed. REQUIRES: `units` >= 0.
  void Take(int64_t units, int64_t now_ns);
  // Gives back units of a Take.
  void Return(int64_t units, int64_t now_ns);

 private:
  void Refill(int64_t now_ns);
  int64_t full() const;

  int64_t rate_ = 0;
  int64_t level_ = 0;  // billionths of a unit, so that a nanosecond brings a whole number of them; negative: owed
  int64_t refilled_ns_ = 0;
};

}  // namespace lightcone::server::auth
