// What the services for operators share: a call runs on the operate lane, and its answer is converted.
// Threads: as gRPC calls them.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/rpc/checked_service.h"
#include "server/rpc/convert.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {

template <typename Service>
class OperatorService : public CheckedService<Service> {
 public:
  using typename CheckedService<Service>::Context;
  using typename CheckedService<Service>::Unary;

 protected:
  explicit OperatorService(RpcCore* core) : CheckedService<Service>(core) {}

  using Work = std::function<absl::Status(const CallContext&)>;
  Unary* Operate(Context* context, std::string_view method, const google::protobuf::Message* request, Work work) {
    return StartUnary(core_, &core_->operate_lane(), context, method, request, std::move(work));
  }
  // For what mends or stops something: it goes before the other calls that wait.
  Unary* OperateAtOnce(Context* context, std::string_view method, const google::protobuf::Message* request, Work work) {
    return StartUnary(core_, &core_->operate_lane(), context, method, request, std::move(work), /*urgent=*/true);
  }
  Unary* OperateOrWait(bool wait, Context* context, std::string_view method, const google::protobuf::Message* request,
                       Work work) {
    return StartUnary(core_, wait ? &core_->wait_lane() : &core_->operate_lane(), context, method, request,
                      std::move(work));
  }

  // Converts an answer of the engine into `out`, or returns its error.
  template <typename Answer, typename Message>
  static absl::Status Convert(absl::StatusOr<Answer> answer, Message* out) {
    if (!answer.ok()) return answer.status();
    ToWire(*std::move(answer), out);
    return absl::OkStatus();
  }

  using CheckedService<Service>::core_;
};

}  // namespace lightcone::server
