// Changes of payloads: the records of the items are written anew, and nothing else of them.
// Threads: every method is safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class PayloadCalls {
 public:
  explicit PayloadCalls(const Context& context) : context_(context) {}

  absl::StatusOr<ChangePayloadAnswer> ChangePayload(const ChangePayloadCall& call, const CallContext& context) const;

 private:
  const Context& context_;
};

}  // namespace lightcone::server
