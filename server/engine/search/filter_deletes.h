// Deletion of the items that pass a filter, one bounded batch a call.
// Threads: every method is safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class FilterDeletes {
 public:
  explicit FilterDeletes(const Context& context) : context_(context) {}

  absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall& call, const CallContext& context) const;

 private:
  const Context& context_;
};

}  // namespace lightcone::server
