#include <utility>

#include "base/status.h"
#include "lightcone/v1/jobs.grpc.pb.h"
#include "server/rpc/convert.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_stream.h"

namespace lightcone::server {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

constexpr std::chrono::milliseconds kJobsLookEvery{100};

class JobsService final : public v1::Jobs::CallbackService {
 public:
  explicit JobsService(RpcCore* core) : core_(core) {}

  Unary* Get(Context* context, const v1::JobsGetRequest* request, v1::JobsGetResponse* response) override {
    return Operate(context, "Jobs/Get", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const JobStatus job, core_->engine().GetJob(request->id()));
      ToWire(job, response->mutable_job());
      return absl::OkStatus();
    });
  }

  Unary* List(Context* context, const v1::JobsListRequest* request, v1::JobsListResponse* response) override {
    return Operate(context, "Jobs/List", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const JobPage page, core_->engine().ListJobs(request->collection(), /*kind=*/"",
                                                                       request->page_size(), request->token()));
      for (const JobStatus& job : page.jobs) ToWire(job, response->add_jobs());
      response->set_token(page.token);
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::JobsWatchResponse>* Watch(Context* context,
                                                         const v1::JobsWatchRequest* request) override {
    return StartWatch<v1::JobsWatchResponse>(
        core_, context, "Jobs/Watch", kJobsLookEvery,
        [core = core_, id = request->id()](v1::JobsWatchResponse* response) -> absl::StatusOr<bool> {
          LC_ASSIGN_OR_RETURN(const JobStatus job, core->engine().GetJob(id));
          ToWire(job, response->mutable_job());
          return job.final();
        });
  }

  Unary* Cancel(Context* context, const v1::JobsCancelRequest* request, v1::JobsCancelResponse* response) override {
    return Operate(context, "Jobs/Cancel", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const JobStatus job, core_->engine().CancelJob(request->id(), request->request_id()));
      ToWire(job, response->mutable_job());
      return absl::OkStatus();
    });
  }

 private:
  Unary* Operate(Context* context, std::string_view method, std::function<absl::Status(const CallContext&)> work) {
    return StartUnary(core_, &core_->operate_lane(), context, method, std::move(work));
  }

  RpcCore* const core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobsService(RpcCore* core) { return std::make_unique<JobsService>(core); }

}  // namespace lightcone::server
