#include "server/auth/rate_bucket.h"

#include <algorithm>

#include "base/dcheck.h"

namespace lightcone::server::auth {
namespace {

constexpr int64_t kPerUnit = 1'000'000'000;
// Neither a level nor the difference of two passes the range of 64 bits.
constexpr int64_t kUnitsMax = RateBucket::kRateMax;

int64_t Parts(int64_t units) { return std::min(units, kUnitsMax) * kPerUnit; }

}  // namespace

int64_t RateBucket::full() const { return Parts(rate_); }

void RateBucket::SetRate(int64_t per_second, int64_t now_ns) {
  LC_DCHECK(per_second >= 0 && per_second <= kRateMax);
  if (per_second == rate_) return;
  Refill(now_ns);
  const bool is_first = rate_ == 0;
  rate_ = per_second;
  refilled_ns_ = now_ns;
  level_ = is_first ? full() : std::min(level_, full());
}

void RateBucket::Refill(int64_t now_ns) {
  if (rate_ == 0 || now_ns <= refilled_ns_) return;
  const int64_t missing = full() - level_, elapsed_ns = now_ns - refilled_ns_;
  level_ = elapsed_ns > missing / rate_ ? full() : level_ + elapsed_ns * rate_;
  refilled_ns_ = now_ns;
}

int64_t RateBucket::WaitFor(int64_t units, int64_t now_ns) {
  LC_DCHECK(units >= 0);
  if (rate_ == 0) return 0;
  Refill(now_ns);
  // More than a second brings would wait for a full bucket, which small calls of others keep from coming.
  const int64_t needed = units > rate_ ? 1 : Parts(units);
  return level_ >= needed ? 0 : (needed - level_ + rate_ - 1) / rate_;
}

void RateBucket::Take(int64_t units, int64_t now_ns) {
  LC_DCHECK(units >= 0);
  if (rate_ == 0) return;
  Refill(now_ns);
  level_ = std::max(level_, Parts(units) - Parts(kUnitsMax)) - Parts(units);
}

void RateBucket::Return(int64_t units, int64_t now_ns) {
  LC_DCHECK(units >= 0);
  if (rate_ == 0) return;
  Refill(now_ns);
  level_ = std::min(full(), level_ + Parts(units));
}

}  // namespace lightcone::server::auth
