// A service whose requests are checked before they are parsed (message_rules.h). A refused request is a finished call
// with its error, in metrics and logs as others. Threads: as gRPC calls the service.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/arena_messages.h"
#include "server/rpc/core.h"
#include "server/rpc/error.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {

// A stream that ends at once with an error.
template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// `Service`: a CallbackService of generated code. A derived class calls Check for each method that it overrides, in its
// constructor.
template <typename Service>
class CheckedService : public Service {
 public:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

 protected:
  explicit CheckedService(RpcCore* core) : core_(core) {}

  template <typename Self, typename Request, typename Response>
  void Check(Unary* (Self::*method)(Context*, const Request*, Response*)) {
    const MessageRules& rules = core_->RulesOf(*Request::descriptor());
    auto* handler = new grpc::internal::CallbackUnaryHandler<Incoming<Request>, Response>(
        [this, &rules, method](Context* context, const Incoming<Request>* incoming, Response* response) -> Unary* {
          const absl::Time started = absl::Now();
          CallContext scratch;
          const absl::StatusOr<const Request*> request = Parse(rules, *context, *incoming, &scratch);
          if (!request.ok()) return RefuseUnary(*core_, *context, scratch, rules.method, request.status(), started);
          return (static_cast<Self*>(this)->*method)(context, *request, response);
        });
    auto messages = std::make_shared<ArenaMessages<Request, Response>>();
    handler->SetMessageAllocator(messages.get());
    allocators_.push_back(std::move(messages));
    this->MarkMethodCallback(rules.method_index, handler);
  }

  template <typename Self, typename Request, typename Response>
  void Check(grpc::ServerWriteReactor<Response>* (Self::*method)(Context*, const Request*)) {
    const MessageRules& rules = core_->RulesOf(*Request::descriptor());
    this->MarkMethodCallback(
        rules.method_index,
        new grpc::internal::CallbackServerStreamingHandler<Incoming<Request>, Response>(
            [this, &rules, method](Context* context,
                                   const Incoming<Request>* incoming) -> grpc::ServerWriteReactor<Response>* {
              const absl::Time started = absl::Now();
              CallContext scratch;
              const absl::StatusOr<const Request*> request = Parse(rules, *context, *incoming, &scratch);
              if (request.ok()) return (static_cast<Self*>(this)->*method)(context, *request);
              core_->Observe(*context, scratch, rules.method, nullptr, request.status(), started);
              return new RefusedStream<Response>(request.status());
            }));
  }

  RpcCore* const core_;

 private:
  // Large requests are parsed only for callers whom the gate would let in, and nobody else learns what is wrong with
  // one.
  // `scratch` gets the caller of a request that is refused.
  template <typename Request>
  absl::StatusOr<const Request*> Parse(const MessageRules& rules, const Context& context,
                                       const Incoming<Request>& incoming, CallContext* scratch) const {
    if (!incoming.IsSmall()) LC_RETURN_IF_ERROR(core_->gate().CheckUnparsed(context, rules.method, scratch));
    absl::StatusOr<const Request*> request = incoming.Parse(rules, &core_->parse_budget());
    if (request.ok()) return request;
    // A message that does not parse is a call of its caller, too.
    const absl::Status admitted = core_->gate().Admit(context, rules.method, scratch).status();
    return admitted.ok() ? request.status() : admitted;
  }

  std::vector<std::shared_ptr<void>> allocators_;
};

}  // namespace lightcone::server
