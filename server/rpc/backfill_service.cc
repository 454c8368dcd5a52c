#include <utility>

#include "base/status.h"
#include "lightcone/v1/backfill.grpc.pb.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/services.h"
#include "server/rpc/watch_stream.h"

namespace lightcone::server {
namespace {

constexpr std::chrono::milliseconds kBackfillLookEvery{500};

// Whether a backfill has ended. A paused backfill has not.
bool Ended(BackfillState state) {
  return state == BackfillState::kNone || state == BackfillState::kStopped || state == BackfillState::kDone ||
         state == BackfillState::kFailed;
}

class BackfillService final : public OperatorService<v1::Backfill::CallbackService> {
 public:
  explicit BackfillService(RpcCore* core) : OperatorService(core) {
    Check(&BackfillService::Lease);
    Check(&BackfillService::Start);
    Check(&BackfillService::Pause);
    Check(&BackfillService::Status);
    Check(&BackfillService::Estimate);
    Check(&BackfillService::Watch);
  }

  Unary* Lease(Context* context, const v1::LeaseRequest* request, v1::LeaseResponse* response) override {
    // Workers lease without end: they belong to those that write, and take no operator's place.
    return StartUnary(core_, &core_->write_lane(), context, "Backfill/Lease", request,
                      [=, this](const CallContext&) -> absl::Status {
                        LC_ASSIGN_OR_RETURN(const LeaseCall call, FromWire(*request));
                        return Convert(core_->engine().LeaseBackfill(call), response);
                      });
  }

  Unary* Start(Context* context, const v1::BackfillStartRequest* request,
               v1::BackfillStartResponse* response) override {
    return Operate(context, "Backfill/Start", request, [=, this](const CallContext&) {
      return Convert(core_->engine().StartBackfill(FromWire(*request)), response->mutable_status());
    });
  }

  Unary* Pause(Context* context, const v1::PauseRequest* request, v1::PauseResponse* response) override {
    return OperateAtOnce(context, "Backfill/Pause", request, [=, this](const CallContext&) {
      return Convert(core_->engine().PauseBackfill(request->collection(), request->request_id()),
                     response->mutable_status());
    });
  }

  Unary* Status(Context* context, const v1::StatusRequest* request, v1::StatusResponse* response) override {
    return Operate(context, "Backfill/Status", request, [=, this](const CallContext&) {
      return Convert(core_->engine().GetBackfill(request->collection()), response);
    });
  }

  Unary* Estimate(Context* context, const v1::EstimateRequest* request, v1::EstimateResponse* response) override {
    return Operate(context, "Backfill/Estimate", request, [=, this](const CallContext& call) {
      return Convert(core_->engine().EstimateBackfill(FromWire(*request), call), response);
    });
  }

  grpc::ServerWriteReactor<v1::BackfillWatchResponse>* Watch(Context* context,
                                                             const v1::BackfillWatchRequest* request) override {
    return StartWatch<v1::BackfillWatchResponse>(
        core_, context, "Backfill/Watch", *request, kBackfillLookEvery,
        [core = core_, name = request->collection()](v1::BackfillWatchResponse* response) -> absl::StatusOr<bool> {
          LC_ASSIGN_OR_RETURN(const BackfillStatus status, core->engine().GetBackfill(name));
          ToWire(status, response->mutable_status());
          response->set_items_done(response->status().items_done());
          response->set_items_total(response->status().items_total());
          return Ended(status.state);
        });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBackfillService(RpcCore* core) { return std::make_unique<BackfillService>(core); }

}  // namespace lightcone::server
