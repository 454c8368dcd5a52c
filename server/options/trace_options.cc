#include "server/options/option_rows.h"
#include "server/trace/trace_endpoint.h"

namespace lightcone::server {

void AddTrace(std::vector<Option>* out) {
  Option endpoint =
      Text("trace.endpoint", FIELD(trace.endpoint), "http://HOST:PORT/PATH, https://HOST:PORT/PATH, or empty",
           {"",
            "URL to which spans of calls are posted as OTLP/HTTP in JSON; empty: no call is traced. It has "
            "neither user nor password.",
            "Where a collector of OpenTelemetry runs: http://127.0.0.1:4318/v1/traces, for example."});
  endpoint.set = [](std::string_view value, ServerConfig* config) {
    LC_RETURN_IF_ERROR(CheckTraceEndpoint(std::string(value)));
    config->trace.endpoint = std::string(value);
    return absl::OkStatus();
  };
  out->push_back(std::move(endpoint));
  out->push_back(Number(
      "trace.sample_share", [](const ServerConfig& c) { return c.trace.sample_share; },
      [](ServerConfig& c, double v) { c.trace.sample_share = v; }, 0, 1,
      {"", "Share of the calls without a header `traceparent` that are traced. With the header, its flag decides.",
       "Lower it where the collector cannot take the spans of every call."}));
}

}  // namespace lightcone::server
