// Retiring a generation: the call, which takes it out of service at once, and the job, which gives its space back.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// See engine.h.
class RetireCalls {
 public:
  static constexpr std::string_view kJob = "retire";

  explicit RetireCalls(Context& context) : context_(context) {}

  absl::StatusOr<RetireAnswer> Retire(const RetireCall& call);
  absl::StatusOr<std::string> RunJob(const JobRun& run);

 private:
  // Takes the generation out of the records of its items, with its embeddings; how many.
  absl::StatusOr<uint64_t> SweepEmbeddings(const Served& served, uint32_t generation, const JobRun& run);

  Context& context_;
};

}  // namespace lightcone::server
