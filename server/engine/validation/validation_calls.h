// Validating a generation: the call, and the job that measures it.
// Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class ValidationCalls {
 public:
  static constexpr std::string_view kJob = "validate";

  explicit ValidationCalls(Context& context) : context_(context) {}

  absl::StatusOr<std::string> Validate(const ValidateCall& call);
  absl::StatusOr<std::string> RunJob(const JobRun& run);

 private:
  Context& context_;
};

}  // namespace lightcone::server
