// Jobs as operators see them, and how other use cases begin one.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/services/context.h"
#include "server/engine/services/operator_transaction.h"

namespace lightcone::server {

// Writes a job of the transaction's collection with the transaction, publishes, begins the job and answers its id.
absl::StatusOr<std::string> BeginJob(Jobs& jobs, OperatorTransaction& change, std::string_view kind,
                                     uint32_t generation, std::string arguments_json = "{}");

// See engine.h.
class JobCalls {
 public:
  explicit JobCalls(Context& context) : context_(context) {}

  absl::StatusOr<JobStatus> Get(const std::string& id) const { return context_.jobs->Get(id); }
  absl::StatusOr<JobPage> List(const std::string& collection, std::string_view kind, uint32_t page_size,
                               const std::string& token) const;
  absl::StatusOr<JobStatus> Cancel(const std::string& id, const std::string& request_id);

 private:
  Context& context_;
};

}  // namespace lightcone::server
