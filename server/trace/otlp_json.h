// Traces as the JSON of OTLP/HTTP: opentelemetry-proto's ExportTraceServiceRequest, with ids in hexadecimal digits.
// The text of a request is appended by hand: a JSON library would take longer than the searches that it tells of.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/trace.h"

namespace lightcone::server {

// What stands before the spans of a request, and behind them.
std::string OtlpHead(std::string_view version, std::string_view instance);
inline constexpr std::string_view kOtlpTail = "]}]}]}";

struct SpanCounts {
  uint64_t spans = 0;
  uint64_t dropped = 0;  // number of spans for which their trace had no room
};

// Takes the contents of the trace of a call that ended with `code`, and appends its spans with commas between them.
SpanCounts AppendSpans(absl::StatusCode code, Trace* trace, std::string* out);

// What a collector says of spans in the reply to a request that it took.
struct PartialSuccess {
  uint64_t rejected = 0;  // number of spans
  std::string message;    // text on one line; empty: there is none
};

// Nothing where the reply says nothing, or is no JSON.
PartialSuccess ReadReply(const std::string& body);

}  // namespace lightcone::server
