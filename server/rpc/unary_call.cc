#include "server/rpc/unary_call.h"

#include <memory>
#include <utility>

#include "base/exceptions.h"
#include "base/status.h"
#include "server/rpc/error.h"

namespace lightcone::server {
namespace {

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(RpcCore* core, grpc::CallbackServerContext* context, std::string_view method,
            const google::protobuf::Message* request)
      : core_(core), call_(*context), method_(method), request_(request), started_(absl::Now()) {
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
    context_.answer_bytes_max = core->options().answer_bytes_max;
  }

  void Start(Lane* lane, bool urgent, std::function<absl::Status(const CallContext&)> work) {
    trace_ = core_->BeginTrace(call_, method_, &context_);
    absl::StatusOr<Caller> caller = Admit();
    if (!caller.ok()) {
      if (context_.caller.empty()) DropTrace();
      return End(caller.status());
    }
    caller_ = *std::move(caller);
    const absl::Status entered = core_->Enter();
    if (!entered.ok()) return End(entered);
    entered_ = true;
    const int64_t queued_ns = trace_ == nullptr ? 0 : SteadyNanos();
    auto run = [this, queued_ns, work = std::move(work)](const absl::Status& admitted) {
      if (trace_ != nullptr) trace_->Add("queue", Trace::kRoot, queued_ns, SteadyNanos());
      absl::Status status = admitted.ok() ? StillWanted(context_, core_->Now()) : admitted;
      if (status.ok()) {
        status = Guarded([&]() -> absl::Status {
          LC_RETURN_IF_ERROR(core_->gate().CheckRequest(caller_, *request_));
          stage_ = CallStage::kWorked;
          return work(context_);
        });
      }
      // The transport cancels a call whose deadline passes: what the engine saw as a cancellation was the deadline.
      if (status.code() == absl::StatusCode::kCancelled && core_->Now() >= context_.deadline) {
        status = DeadlineExceeded("the call's deadline passed while it ran");
      }
      End(status);
    };
    lane->Submit({std::move(run), context_.deadline, urgent});
  }

  void End(const absl::Status& status) {
    core_->Observe(call_, context_, method_, request_, status, started_);
    context_.trace = nullptr;
    core_->EndTrace(std::move(trace_), method_, request_, status, stage_);
    // A client that has its answer may call at once.
    caller_.slot.Release();
    Finish(ToGrpc(status));  // The reactor may be gone when Finish returns.
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override {
    if (entered_) core_->Leave();
    delete this;
  }

 private:
  absl::StatusOr<Caller> Admit() {
    const Span auth(context_.trace, "auth");
    return core_->gate().Admit(call_, method_, &context_);
  }
  // Nobody without a valid key sends spans. The log then has the caller's id, or none.
  void DropTrace() {
    context_.trace = nullptr;
    context_.trace_id = {};
    trace_.reset();
  }

  RpcCore* const core_;
  const grpc::CallbackServerContext& call_;
  const std::string_view method_;
  const google::protobuf::Message* const request_;
  const absl::Time started_;
  CallContext context_;
  Caller caller_;
  std::unique_ptr<Trace> trace_;
  CallStage stage_ = CallStage::kRefused;
  std::atomic<bool> cancelled_{false};
  bool entered_ = false;
};

class RefusedCall final : public grpc::ServerUnaryReactor {
 public:
  explicit RefusedCall(const absl::Status& error) { Finish(ToGrpc(error)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* RefuseUnary(const RpcCore& core, const grpc::CallbackServerContext& call,
                                      const CallContext& context, std::string_view method, const absl::Status& error,
                                      absl::Time started) {
  core.Observe(call, context, method, nullptr, error, started);
  return new RefusedCall(error);
}

grpc::ServerUnaryReactor* StartUnary(RpcCore* core, Lane* lane, grpc::CallbackServerContext* context,
                                     std::string_view method, const google::protobuf::Message* request,
                                     std::function<absl::Status(const CallContext&)> work, bool urgent) {
  auto* call = new UnaryCall(core, context, method, request);
  call->Start(lane, urgent, std::move(work));
  return call;
}

absl::Status Guarded(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace lightcone::server
