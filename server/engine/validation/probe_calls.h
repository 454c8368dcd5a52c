// Probe sets of a collection: putting, listing, dropping.
// Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class ProbeCalls {
 public:
  explicit ProbeCalls(Context& context) : context_(context) {}

  absl::StatusOr<ProbeSetStatus> Put(const PutProbesCall& call);
  absl::Status Drop(const std::string& collection, const std::string& set, const std::string& request_id);
  absl::StatusOr<std::vector<ProbeSetStatus>> List(const std::string& collection) const;

 private:
  Context& context_;
};

}  // namespace lightcone::server
