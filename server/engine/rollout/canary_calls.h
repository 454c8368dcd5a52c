// Canaries: letting one serve, and both sides side by side. SearchCalls lets it serve its share of the keys.
// Threads: every method is safe from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class CanaryCalls {
 public:
  explicit CanaryCalls(Context& context) : context_(context) {}

  absl::StatusOr<CanaryStatus> Set(const SetCanaryCall& call);
  absl::StatusOr<CanaryStatus> Get(const std::string& collection) const;

 private:
  Context& context_;
};

}  // namespace lightcone::server
