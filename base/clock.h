// The time of records: microseconds since 1970, as stores and the wire keep it. Not for intervals: it may jump.
// Threads: safe.
#pragma once

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lightcone {

inline int64_t NowMicros() { return absl::ToUnixMicros(absl::Now()); }

}  // namespace lightcone
