// Upsert and Delete: everything that can be checked or computed without the collection's writer happens here, in the
// caller's thread. Threads: every method is safe from any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class WriteCalls {
 public:
  explicit WriteCalls(Context& context) : context_(context) {}

  absl::StatusOr<WriteResult> Upsert(UpsertBatch batch, const CallContext& context);
  absl::StatusOr<WriteResult> Delete(const std::string& collection, const std::vector<ItemId>& ids,
                                     Durability durability, const CallContext& context);
  // The second half of Upsert, for a batch that is checked.
  absl::StatusOr<WriteResult> WriteVectors(const Served& served, const GenerationRecord& generation, UpsertBatch batch,
                                           const CallContext& context);

 private:
  absl::StatusOr<WriteResult> Write(const Served& served, const GenerationRecord& generation, UpsertBatch batch,
                                    bool refuses_foreign, const CallContext& context);

  Context& context_;
};

}  // namespace lightcone::server
