// Facet: exact counts of items by the values of a payload field, from a payload index where one has them all, else by
// reading payloads. Threads: every method is safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class FacetCalls {
 public:
  explicit FacetCalls(const Context& context) : context_(context) {}

  absl::StatusOr<FacetAnswer> Facet(const FacetCall& call, const CallContext& context) const;

 private:
  const Context& context_;
};

}  // namespace lightcone::server
