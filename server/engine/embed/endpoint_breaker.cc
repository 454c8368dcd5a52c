#include "server/engine/embed/endpoint_breaker.h"

#include <algorithm>

#include "base/dcheck.h"
#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server {

EndpointBreaker::EndpointBreaker(int failures_max, absl::Duration rest) : failures_max_(failures_max), rest_(rest) {
  LC_DCHECK(failures_max >= 1);
}

absl::StatusOr<EndpointBreaker::Entry> EndpointBreaker::Admit(absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (failures_ < failures_max_) return Entry::kUsual;
  // A clock that was set back lengthens no rest.
  const absl::Duration left = std::min(closed_until_ - now, rest_);
  if (left <= absl::ZeroDuration() && !trying_) {
    trying_ = true;
    return Entry::kTrial;
  }
  const absl::Duration after = std::max(left, absl::ZeroDuration());
  return WithRetryAfter(Unavailable(StrCat("it failed ", failures_, " times in a row, and is called again in ",
                                           absl::FormatDuration(absl::Ceil(after, absl::Milliseconds(1))))),
                        after);
}

void EndpointBreaker::Note(Entry entry, Outcome outcome, absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (entry == Entry::kTrial) trying_ = false;
  if (outcome == Outcome::kUnknown) return;
  if (outcome == Outcome::kWorks) {
    failures_ = 0;
    return;
  }
  if (entry == Entry::kUsual && failures_ >= failures_max_) return;
  if (++failures_ >= failures_max_) closed_until_ = now + rest_;
}

}  // namespace lightcone::server
