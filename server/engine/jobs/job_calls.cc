#include "server/engine/jobs/job_calls.h"

#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"

namespace lightcone::server {

absl::StatusOr<std::string> BeginJob(Jobs& jobs, OperatorTransaction& change, std::string_view kind,
                                     uint32_t generation, std::string arguments_json) {
  JobRecord job;
  job.kind = std::string(kind);
  job.collection = change.before().record.name;
  job.collection_number = change.request().collection;
  job.generation = generation;
  job.arguments_json = std::move(arguments_json);
  LC_ASSIGN_OR_RETURN(const JobRecord made, jobs.Prepare(std::move(job), &change.batch()));
  change.request().generation = generation;
  change.request().job = StrCat(made.number);
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  change.Publish();
  jobs.Begin(made);
  LC_RETURN_IF_ERROR(written.status);
  return StrCat(made.number);
}

absl::StatusOr<JobPage> JobCalls::List(const std::string& collection, std::string_view kind, uint32_t page_size,
                                       const std::string& token) const {
  uint32_t number = 0;
  if (!collection.empty()) {
    LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(collection));
    number = served->collection->number();
  }
  return context_.jobs->List(number, kind, page_size, token);
}

absl::StatusOr<JobStatus> JobCalls::Cancel(const std::string& id, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  return context_.jobs->Cancel(id);  // A second call has the same answer, so that the request needs no record.
}

}  // namespace lightcone::server
