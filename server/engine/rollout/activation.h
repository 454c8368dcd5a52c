// Which generation serves: activating, rolling back, and the log of both.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"
#include "server/engine/services/operator_transaction.h"

namespace lightcone::server {

struct MayServe {
  bool validated = false;  // A passing validation that is still true stands behind the generation.
  uint64_t out_of_reach = 0;
};
// FAILED_PRECONDITION unless `force`: for a generation that the gate keeps out (where `gate` is set), or that does not
// reach every item. `what`: "activate".
absl::StatusOr<MayServe> CheckMayServe(Collection& collection, const CollectionState& state, uint32_t generation,
                                       bool force, bool gate, std::string_view what);

// See engine.h.
class ActivationCalls {
 public:
  explicit ActivationCalls(Context& context) : context_(context) {}

  absl::StatusOr<ActivateAnswer> Activate(const ActivateCall& call) { return Switch(call, call.generation); }
  absl::StatusOr<ActivateAnswer> Rollback(const SwitchCall& call) { return Switch(call, std::nullopt); }
  absl::StatusOr<std::vector<AuditEntry>> ListAudit(const std::string& collection, uint32_t limit) const;

 private:
  // nullopt: to the generation before.
  absl::StatusOr<ActivateAnswer> Switch(const SwitchCall& call, std::optional<uint32_t> generation);
  // `generation` takes over, `earlier` becomes the way back.
  absl::StatusOr<ActivateAnswer> Serve(const Served& served, OperatorTransaction& change, const SwitchCall& call,
                                       bool rollback, uint32_t generation, std::vector<uint32_t> earlier);

  Context& context_;
};

}  // namespace lightcone::server
