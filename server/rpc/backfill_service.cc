#include <utility>

#include "base/status.h"
#include "lightcone/v1/backfill.grpc.pb.h"
#include "server/rpc/convert.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/watch_stream.h"

namespace lightcone::server {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

constexpr std::chrono::milliseconds kBackfillLookEvery{500};

// A paused one may go on.
bool Ended(BackfillState state) {
  return state == BackfillState::kNone || state == BackfillState::kStopped || state == BackfillState::kDone ||
         state == BackfillState::kFailed;
}

class BackfillService final : public v1::Backfill::CallbackService {
 public:
  explicit BackfillService(RpcCore* core) : core_(core) {}

  Unary* Lease(Context* context, const v1::LeaseRequest* request, v1::LeaseResponse* response) override {
    return Operate(context, "Backfill/Lease", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const LeaseCall call, FromWire(*request));
      LC_ASSIGN_OR_RETURN(LeaseAnswer answer, core_->engine().LeaseBackfill(call));
      ToWire(std::move(answer), response);
      return absl::OkStatus();
    });
  }

  Unary* Start(Context* context, const v1::BackfillStartRequest* request,
               v1::BackfillStartResponse* response) override {
    return Operate(context, "Backfill/Start", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const BackfillStatus status, core_->engine().StartBackfill(FromWire(*request)));
      ToWire(status, response->mutable_status());
      return absl::OkStatus();
    });
  }

  Unary* Pause(Context* context, const v1::PauseRequest* request, v1::PauseResponse* response) override {
    return Operate(context, "Backfill/Pause", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const BackfillStatus status,
                          core_->engine().PauseBackfill(request->collection(), request->request_id()));
      ToWire(status, response->mutable_status());
      return absl::OkStatus();
    });
  }

  Unary* Status(Context* context, const v1::StatusRequest* request, v1::StatusResponse* response) override {
    return Operate(context, "Backfill/Status", [=, this](const CallContext&) -> absl::Status {
      LC_ASSIGN_OR_RETURN(const BackfillStatus status, core_->engine().GetBackfill(request->collection()));
      ToWire(status, response);
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::BackfillWatchResponse>* Watch(Context* context,
                                                             const v1::BackfillWatchRequest* request) override {
    return StartWatch<v1::BackfillWatchResponse>(
        core_, context, "Backfill/Watch", kBackfillLookEvery,
        [core = core_, name = request->collection()](v1::BackfillWatchResponse* response) -> absl::StatusOr<bool> {
          LC_ASSIGN_OR_RETURN(const BackfillStatus status, core->engine().GetBackfill(name));
          ToWire(status, response->mutable_status());
          response->set_items_done(response->status().items_done());
          response->set_items_total(response->status().items_total());
          return Ended(status.state);
        });
  }

 private:
  Unary* Operate(Context* context, std::string_view method, std::function<absl::Status(const CallContext&)> work) {
    return StartUnary(core_, &core_->operate_lane(), context, method, std::move(work));
  }

  RpcCore* const core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBackfillService(RpcCore* core) { return std::make_unique<BackfillService>(core); }

}  // namespace lightcone::server
