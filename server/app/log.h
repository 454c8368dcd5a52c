// The server's log: lines on stderr, for people or as JSON. Threads: every function is safe from any thread.
#pragma once

#include <string_view>

#include "absl/time/time.h"
#include "base/trace.h"

namespace lightcone::server {

// REQUIRES: level and format are values that the options table allows.
void SetUpLog(std::string_view level, std::string_view format);

// One finished call: operator calls and server faults at info or above, other failures at debug.
// `trace_id` may be empty.
void LogCall(std::string_view method, std::string_view code, absl::Duration elapsed, std::string_view message,
             const TraceId& trace_id);

void LogInfo(std::string_view message);
void LogWarning(std::string_view message);

}  // namespace lightcone::server
