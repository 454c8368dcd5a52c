// A service whose methods come with a later version: it is on the wire already, and says so.
#include "lightcone/v1/training.grpc.pb.h"
#include "server/rpc/refused_stream.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

constexpr std::string_view kTrainingHint = "run 'lightcone train' instead";

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
    return RefuseStream<v1::TrainingWatchResponse>(core_, "Training/Watch", kTrainingHint);
  }
  Unary* Cancel(Context* context, const v1::CancelRequest*, v1::CancelResponse*) override {
    return StartUnimplemented(core_, context, "Training/Cancel", kTrainingHint);
  }

 private:
  RpcCore* const core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTrainingService(RpcCore* core) { return std::make_unique<TrainingService>(core); }

}  // namespace lightcone::server
