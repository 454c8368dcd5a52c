#include <utility>

#include "base/status.h"
#include "lightcone/v1/jobs.grpc.pb.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/services.h"
#include "server/rpc/watch_stream.h"

namespace lightcone::server {
namespace {

constexpr std::chrono::milliseconds kJobsLookEvery{100};

class JobsService final : public OperatorService<v1::Jobs::CallbackService> {
 public:
  explicit JobsService(RpcCore* core) : OperatorService(core) {
    Check(&JobsService::Get);
    Check(&JobsService::List);
    Check(&JobsService::Watch);
    Check(&JobsService::Cancel);
  }

  Unary* Get(Context* context, const v1::JobsGetRequest* request, v1::JobsGetResponse* response) override {
    return Operate(context, "Jobs/Get", request, [=, this](const CallContext&) {
      return Convert(core_->engine().GetJob(request->id()), response->mutable_job());
    });
  }

  Unary* List(Context* context, const v1::JobsListRequest* request, v1::JobsListResponse* response) override {
    return Operate(context, "Jobs/List", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const JobPage page, core_->engine().ListJobs(request->collection(), /*kind=*/"",
                                                                       request->page_size(), request->token()));
      for (const JobStatus& job : page.jobs) {
        if (!call.sees || call.sees(job.collection)) ToWire(job, response->add_jobs());
      }
      response->set_token(page.token);
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::JobsWatchResponse>* Watch(Context* context,
                                                         const v1::JobsWatchRequest* request) override {
    return StartWatch<v1::JobsWatchResponse>(
        core_, context, "Jobs/Watch", *request, kJobsLookEvery,
        [core = core_, id = request->id()](v1::JobsWatchResponse* response) -> absl::StatusOr<bool> {
          LC_ASSIGN_OR_RETURN(const JobStatus job, core->engine().GetJob(id));
          ToWire(job, response->mutable_job());
          return job.final();
        });
  }

  Unary* Cancel(Context* context, const v1::JobsCancelRequest* request, v1::JobsCancelResponse* response) override {
    return OperateAtOnce(context, "Jobs/Cancel", request, [=, this](const CallContext&) {
      return Convert(core_->engine().CancelJob(request->id(), request->request_id()), response->mutable_job());
    });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobsService(RpcCore* core) { return std::make_unique<JobsService>(core); }

}  // namespace lightcone::server
