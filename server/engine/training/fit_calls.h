// Adapters for models from elsewhere: which items to embed, and the job that fits one in a process of its own, where it
// can neither take the server's memory nor end it. Threads: every method is safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/rollout/adapter_calls.h"
#include "server/engine/services/context.h"
#include "server/engine/write/write_calls.h"

namespace lightcone::server {

// See engine.h.
class FitCalls {
 public:
  static constexpr std::string_view kJob = "fit-adapter";

  // Both must outlive it.
  FitCalls(Context& context, AdapterCalls& adapters) : context_(context), adapters_(adapters), writes_(context) {}

  absl::StatusOr<std::string> Fit(const FitAdapterCall& call);
  absl::StatusOr<std::string> RunJob(const JobRun& run);
  absl::StatusOr<std::vector<SampledItem>> SampleItems(const SampleItemsCall& call, const CallContext& context) const;

 private:
  Context& context_;
  AdapterCalls& adapters_;
  WriteCalls writes_;
};

}  // namespace lightcone::server
