// The spans of a search's legs, one a generation. Threads: pure function.
#pragma once

#include <cstdint>

#include "base/trace.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// The legs of all queries began at `began_ns` of the steady clock, side by side, and have ended. Those that gave up
// have no profile and no span.
void AddLegSpans(const SearchProfile& profile, int64_t began_ns, Trace* trace);

}  // namespace lightcone::server
