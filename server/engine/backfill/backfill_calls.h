// The calls of the lazy backfill: starting, pausing, looking, leasing.
// Threads: every method is safe from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class BackfillCalls {
 public:
  explicit BackfillCalls(Context& context) : context_(context) {}

  // Goes on with the backfill that the store holds, if any. At the start.
  absl::Status Load(const Served& served);
  absl::StatusOr<BackfillStatus> Start(const StartBackfillCall& call);
  absl::StatusOr<BackfillStatus> Pause(const std::string& collection, const std::string& request_id);
  absl::StatusOr<BackfillStatus> Get(const std::string& collection) const;
  absl::StatusOr<EmbeddingEstimate> Estimate(const EstimateCall& call, const CallContext& context) const;
  absl::StatusOr<LeaseAnswer> Lease(const LeaseCall& call);

 private:
  Context& context_;
};

}  // namespace lightcone::server
