// The line of generations: registering, taking up drafts, listing.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class GenerationCalls {
 public:
  explicit GenerationCalls(Context& context) : context_(context) {}

  // `cancelled`: ends the trial of the encoder.
  absl::StatusOr<GenerationStatus> Register(const RegisterCall& call, const std::function<bool()>& cancelled = {});
  absl::StatusOr<std::vector<GenerationStatus>> List(const std::string& collection) const;
  absl::StatusOr<GenerationStatus> Get(const std::string& collection, uint32_t generation) const;

 private:
  absl::StatusOr<GenerationStatus> TakeUpDraft(Collection& collection, const RegisterCall& call);

  Context& context_;
};

}  // namespace lightcone::server
