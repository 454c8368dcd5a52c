// Calls at a steady rate, and the tail of their latencies.
// Threads: none of its own.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace lightcone::bench {

// Calls `call` at the moments begin + i * period until `end`, late ones at once; latency counts from the moment.
// Without a period one call follows the other.
template <typename Call>
absl::Status Paced(absl::Time begin, absl::Time end, absl::Duration period, std::vector<double>* latencies_ms,
                   Call call) {
  for (absl::Time due = begin; due < end && absl::Now() < end; due += period) {
    absl::SleepFor(due - absl::Now());
    LC_RETURN_IF_ERROR(call());
    if (latencies_ms != nullptr) latencies_ms->push_back(absl::ToDoubleMilliseconds(absl::Now() - due));
  }
  return absl::OkStatus();
}

// REQUIRES: not empty.
inline double Percentile99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

}  // namespace lightcone::bench
