// A server stream that only says that its method comes with a later version.
// Threads: the reactor owns itself.
#pragma once

#include <string_view>

#include "absl/time/clock.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/core.h"
#include "server/rpc/error.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {

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

// Answers UNIMPLEMENTED, as StartUnimplemented.
template <typename Response>
grpc::ServerWriteReactor<Response>* RefuseStream(RpcCore* core, std::string_view method, std::string_view hint) {
  return new RefusedStream<Response>(core, method, hint);
}

}  // namespace lightcone::server
