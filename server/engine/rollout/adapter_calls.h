// Adapters of a collection: putting, dropping, listing.
// Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class AdapterCalls {
 public:
  explicit AdapterCalls(Context& context) : context_(context) {}

  absl::StatusOr<AdapterStatus> Put(const PutAdapterCall& call);
  absl::Status Drop(const DropAdapterCall& call);
  absl::StatusOr<std::vector<AdapterStatus>> List(const std::string& collection) const;

 private:
  Context& context_;
};

}  // namespace lightcone::server
