// Collections and aliases: creating, listing, dropping, rebuilding, and payload indexes online.
// Threads: every method is safe from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// A collection with all that the use cases keep beside it.
ServedPtr MakeServed(std::shared_ptr<Collection> collection, const EngineOptions& options);
IndexLimits IndexLimitsOf(const Context& context);

// See engine.h.
class CollectionCalls {
 public:
  explicit CollectionCalls(Context& context) : context_(context) {}

  absl::StatusOr<CollectionStatus> Create(const CreateCollectionCall& call);
  absl::StatusOr<std::vector<CollectionStatus>> List() const;
  absl::StatusOr<CollectionStatus> Get(const std::string& name) const;
  absl::Status Drop(const std::string& name, const std::string& request_id);
  absl::Status SetAlias(const std::string& alias, const std::string& collection, const std::string& request_id);
  absl::StatusOr<CollectionStatus> Update(const UpdateCollectionCall& call);
  absl::StatusOr<CollectionStatus> Rebuild(const std::string& collection, const IndexChange& index, bool wait,
                                           const std::string& request_id, const CallContext& context);
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall& call, const CallContext& context);

 private:
  Context& context_;
};

}  // namespace lightcone::server
