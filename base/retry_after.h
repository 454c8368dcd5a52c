// The time after which a refused call may succeed, as a part of its status. Threads: pure functions.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lightcone {

// `status` with that time. REQUIRES: status is not OK, `after` >= 0 and finite.
absl::Status WithRetryAfter(absl::Status status, absl::Duration after);

// The time that a status carries; none where it does not say.
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

}  // namespace lightcone
