// One unary call: admission, a lane, deadline and cancellation, errors, the record for metrics.
#pragma once

#include <atomic>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/core.h"

namespace lightcone::server {

// Runs `work` for a call on `lane`, if the gate lets its caller in and `request` names collections that it may use.
// The returned reactor owns itself; request and response live until it is done.
// Answers UNAVAILABLE while draining, RESOURCE_EXHAUSTED when the lane refuses it, DEADLINE_EXCEEDED or CANCELLED
// when nobody waits any more. `method` must be a literal. `urgent`: the call begins before others that wait.
grpc::ServerUnaryReactor* StartUnary(RpcCore* core, Lane* lane, grpc::CallbackServerContext* context,
                                     std::string_view method, const google::protobuf::Message* request,
                                     std::function<absl::Status(const CallContext&)> work, bool urgent = false);

// Ends a call that began at `started` with an error, before any work. `context` has the caller, if there is one.
grpc::ServerUnaryReactor* RefuseUnary(const RpcCore& core, const grpc::CallbackServerContext& call,
                                      const CallContext& context, std::string_view method, const absl::Status& error,
                                      absl::Time started);

// Runs `work` and turns an exception (out of memory, a third party's) into a status.
absl::Status Guarded(const std::function<absl::Status()>& work);

}  // namespace lightcone::server
