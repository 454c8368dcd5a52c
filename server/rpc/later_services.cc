// Services whose methods come with later versions: they are on the wire already, and say so.
#include "lightcone/v1/backfill.grpc.pb.h"
#include "lightcone/v1/training.grpc.pb.h"
#include "server/rpc/error.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

constexpr std::string_view kBackfillHint = "upsert the items again with same_content instead";
constexpr std::string_view kTrainingHint = "run 'lightcone train' instead";

template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  RefusedStream(RpcCore* core, std::string_view method, std::string_view hint) {
    const absl::Status status = UnimplementedText(method, hint);
    core->Observe(method, status, absl::Now());
    this->Finish(ToGrpc(status));
  }
  void OnDone() override { delete this; }
};

class BackfillService final : public v1::Backfill::CallbackService {
 public:
  explicit BackfillService(RpcCore* core) : core_(core) {}
  Unary* Lease(Context* context, const v1::LeaseRequest*, v1::LeaseResponse*) override {
    return StartUnimplemented(core_, context, "Backfill/Lease", kBackfillHint);
  }
  Unary* Start(Context* context, const v1::BackfillStartRequest*, v1::BackfillStartResponse*) override {
    return StartUnimplemented(core_, context, "Backfill/Start", kBackfillHint);
  }
  Unary* Pause(Context* context, const v1::PauseRequest*, v1::PauseResponse*) override {
    return StartUnimplemented(core_, context, "Backfill/Pause", kBackfillHint);
  }
  Unary* Status(Context* context, const v1::StatusRequest*, v1::StatusResponse*) override {
    return StartUnimplemented(core_, context, "Backfill/Status", kBackfillHint);
  }
  grpc::ServerWriteReactor<v1::BackfillWatchResponse>* Watch(Context*, const v1::BackfillWatchRequest*) override {
    return new RefusedStream<v1::BackfillWatchResponse>(core_, "Backfill/Watch", kBackfillHint);
  }

 private:
  RpcCore* const core_;
};

class TrainingService final : public v1::Training::CallbackService {
 public:
  explicit TrainingService(RpcCore* core) : core_(core) {}
  Unary* Start(Context* context, const v1::TrainingStartRequest*, v1::TrainingStartResponse*) override {
    return StartUnimplemented(core_, context, "Training/Start", kTrainingHint);
  }
  Unary* Get(Context* context, const v1::TrainingGetRequest*, v1::TrainingGetResponse*) override {
    return StartUnimplemented(core_, context, "Training/Get", kTrainingHint);
  }
  Unary* List(Context* context, const v1::TrainingListRequest*, v1::TrainingListResponse*) override {
    return StartUnimplemented(core_, context, "Training/List", kTrainingHint);
  }
  grpc::ServerWriteReactor<v1::TrainingWatchResponse>* Watch(Context*, const v1::TrainingWatchRequest*) override {
    return new RefusedStream<v1::TrainingWatchResponse>(core_, "Training/Watch", kTrainingHint);
  }
  Unary* Cancel(Context* context, const v1::CancelRequest*, v1::CancelResponse*) override {
    return StartUnimplemented(core_, context, "Training/Cancel", kTrainingHint);
  }

 private:
  RpcCore* const core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBackfillService(RpcCore* core) { return std::make_unique<BackfillService>(core); }
std::unique_ptr<grpc::Service> MakeTrainingService(RpcCore* core) { return std::make_unique<TrainingService>(core); }

const std::vector<const char*>& ServiceNames() {
  static const auto* const names =
      new std::vector<const char*>{v1::Backfill::service_full_name(), v1::Training::service_full_name(),
                                   "lightcone.v1.Retrieval", "lightcone.v1.Collections", "lightcone.v1.Generations"};
  return *names;
}

}  // namespace lightcone::server
