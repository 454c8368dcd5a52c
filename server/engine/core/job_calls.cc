// Jobs as operators see them.
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/core/engine_impl.h"

namespace lightcone::server {

absl::StatusOr<JobStatus> EngineImpl::GetJob(const std::string& id) { return jobs_.Get(id); }

absl::StatusOr<JobPage> EngineImpl::ListJobs(const std::string& name, std::string_view kind, uint32_t page_size,
                                             const std::string& token) {
  uint32_t number = 0;
  if (!name.empty()) {
    LC_ASSIGN_OR_RETURN(const ServedPtr served, Find(name));
    number = served->collection->number();
  }
  return jobs_.List(number, kind, page_size, token);
}

absl::StatusOr<JobStatus> EngineImpl::CancelJob(const std::string& id, const std::string& request_id) {
  LC_RETURN_IF_ERROR(CheckRequestId(request_id));
  return jobs_.Cancel(id);  // again: the same answer, so that the request needs no record
}

}  // namespace lightcone::server
