// A line of a file of probes. Threads: all functions are safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lightcone/v1/probes.pb.h"

namespace lightcone::cli {

struct ProbeLine {
  v1::Probe probe;
  std::string image;  // a path, or empty
};

// {"relevant": [7, "cat-1"]} or {"label": "cat"}, with {"vectors": {"1": [0.1, ...]}} or {"image": "a.png"}, and
// perhaps
// {"item": "cat-9"}. INVALID_ARGUMENT names the field; an unknown one is refused.
absl::StatusOr<ProbeLine> ParseProbeLine(const std::string& line);

}  // namespace lightcone::cli
