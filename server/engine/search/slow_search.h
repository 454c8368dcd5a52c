// The log's line about a slow search: which one it was and where its time went, without values of the caller.
// Threads: pure functions.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/trace.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// `answer` has a profile, unless no leg ended. `trace_id` may be empty.
std::string SlowSearchLine(const SearchCall& call, const SearchAnswer& answer, absl::Duration took,
                           const TraceId& trace_id = {});

}  // namespace lightcone::server
