// Trainings, which are jobs of one kind, with fields of their own.
#include <utility>

#include "base/status.h"
#include "lightcone/v1/training.grpc.pb.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/services.h"
#include "server/rpc/watch_stream.h"

namespace lightcone::server {
namespace {

constexpr std::chrono::milliseconds kTrainingLookEvery{100};

absl::StatusOr<JobStatus> FindTraining(RpcCore* core, const std::string& id) {
  LC_ASSIGN_OR_RETURN(JobStatus job, core->engine().GetJob(id));
  if (job.kind == Engine::kTrainJob) return job;
  return NotFound(StrCat("job '", id, "' is no training: its kind is ", job.kind));
}

class TrainingService final : public OperatorService<v1::Training::CallbackService> {
 public:
  explicit TrainingService(RpcCore* core) : OperatorService(core) {
    Check(&TrainingService::Start);
    Check(&TrainingService::Get);
    Check(&TrainingService::List);
    Check(&TrainingService::Watch);
    Check(&TrainingService::Cancel);
  }

  Unary* Start(Context* context, const v1::TrainingStartRequest* request,
               v1::TrainingStartResponse* response) override {
    return Operate(context, "Training/Start", request, [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(
          const std::string id,
          core_->engine().StartTraining({request->request_id(), request->collection(), request->recipe_json(),
                                         request->label_field(), request->parent()}));
      return Convert(core_->engine().GetJob(id), response->mutable_job());
    });
  }

  Unary* Get(Context* context, const v1::TrainingGetRequest* request, v1::TrainingGetResponse* response) override {
    return Operate(context, "Training/Get", request, [=, this](const CallContext&) {
      return Convert(FindTraining(core_, request->id()), response->mutable_job());
    });
  }

  Unary* List(Context* context, const v1::TrainingListRequest* request, v1::TrainingListResponse* response) override {
    return Operate(context, "Training/List", request, [=, this](const CallContext& call) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const JobPage page, core_->engine().ListJobs(request->collection(), Engine::kTrainJob,
                                                                       request->page_size(), request->token()));
      for (const JobStatus& job : page.jobs) {
        if (!call.sees || call.sees(job.collection)) ToWire(job, response->add_jobs());
      }
      response->set_token(page.token);
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::TrainingWatchResponse>* Watch(Context* context,
                                                             const v1::TrainingWatchRequest* request) override {
    return StartWatch<v1::TrainingWatchResponse>(
        core_, context, "Training/Watch", *request, kTrainingLookEvery,
        [core = core_, id = request->id()](v1::TrainingWatchResponse* response) -> absl::StatusOr<bool> {
          LC_ASSIGN_OR_RETURN(const JobStatus job, FindTraining(core, id));
          ToWire(job, response->mutable_job());
          return job.final();
        });
  }

  Unary* Cancel(Context* context, const v1::CancelRequest* request, v1::CancelResponse* response) override {
    return OperateAtOnce(context, "Training/Cancel", request, [=, this](const CallContext&) -> absl::Status {
      LC_RETURN_IF_ERROR(FindTraining(core_, request->id()).status());
      return Convert(core_->engine().CancelJob(request->id(), request->request_id()), response->mutable_job());
    });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTrainingService(RpcCore* core) { return std::make_unique<TrainingService>(core); }

}  // namespace lightcone::server
