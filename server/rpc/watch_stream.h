// A server stream of a state: at once, after each change, until the state is final. Threads: the reactor owns itself.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/core.h"
#include "server/rpc/error.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {

// Fills in the present state and returns whether it is final.
template <typename Response>
using LookAt = std::function<absl::StatusOr<bool>(Response* response)>;

// Reads the state on the lane of watches, writes it if it has changed, else sleeps in an alarm, which holds no thread.
// Exactly one of the three is under way at a time, so that the stream needs no lock. So a watch has one job in the lane
// at most, and many watches only look less often. The stream is busy while it reads or writes: a drain ends it at its
// next reading.
template <typename Response>
class WatchStream final : public grpc::ServerWriteReactor<Response> {
 public:
  WatchStream(RpcCore* core, grpc::CallbackServerContext* context, std::string_view method,
              const google::protobuf::Message& request, std::chrono::milliseconds look_every, LookAt<Response> look)
      : core_(core),
        call_(*context),
        method_(method),
        request_(request.New()),
        look_every_(look_every),
        look_(std::move(look)),
        started_(absl::Now()) {
    request_->CopyFrom(request);
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
  }

  void Begin(const grpc::CallbackServerContext& context) {
    absl::StatusOr<Caller> caller = core_->gate().Admit(context, method_, &context_);
    if (!caller.ok()) return End(caller.status());
    caller_ = *std::move(caller);
    const absl::Status opened = core_->OpenWatch();
    if (!opened.ok()) return End(opened);
    open_ = true;
    Next();
  }

  void OnWriteDone(bool ok) override {
    core_->Leave();
    if (!ok) return End(MakeStatus(absl::StatusCode::kCancelled, "the client went away"));
    if (last_) return End(absl::OkStatus());
    Next();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override {
    if (open_) core_->CloseWatch();
    delete this;
  }

 private:
  void Next() {
    const absl::Status admitted = core_->Enter();
    if (!admitted.ok()) return End(admitted);
    core_->watch_lane().Submit({[this](const absl::Status& status) { Look(status); }, context_.deadline});
  }

  void Look(const absl::Status& admitted) {
    RpcCore* const core = core_;  // the object may be gone once the transport has the answer or the status
    bool news = false;
    const absl::Status status = Guarded([&]() -> absl::Status {
      LC_RETURN_IF_ERROR(admitted);
      LC_RETURN_IF_ERROR(StillWanted(context_, core_->Now()));
      // An alias may point elsewhere by now.
      LC_RETURN_IF_ERROR(core_->gate().CheckRequest(caller_, *request_));
      response_.Clear();
      LC_ASSIGN_OR_RETURN(last_, look_(&response_));
      std::string now = response_.SerializeAsString();
      news = last_ || !written_ || now != seen_;
      seen_ = std::move(now);
      return absl::OkStatus();
    });
    if (status.ok() && news) {
      written_ = true;
      this->StartWrite(&response_);  // OnWriteDone leaves
      return;
    }
    if (status.ok()) {
      alarm_.Set(std::chrono::system_clock::now() + look_every_, [this](bool) { Next(); });
    } else {
      End(status);
    }
    core->Leave();
  }

  void End(const absl::Status& status) {
    core_->Observe(call_, context_, method_, request_.get(), status, started_);
    caller_.slot.Release();
    this->Finish(ToGrpc(status));
  }

  RpcCore* const core_;
  const grpc::CallbackServerContext& call_;
  const std::string_view method_;
  const std::unique_ptr<google::protobuf::Message> request_;
  const std::chrono::milliseconds look_every_;
  const LookAt<Response> look_;
  const absl::Time started_;
  CallContext context_;
  Caller caller_;
  std::atomic<bool> cancelled_{false};
  bool open_ = false, written_ = false, last_ = false;
  std::string seen_;  // text that was written last
  Response response_;
  grpc::Alarm alarm_;
};

// `method` must live as long as the program.
template <typename Response>
grpc::ServerWriteReactor<Response>* StartWatch(RpcCore* core, grpc::CallbackServerContext* context,
                                               std::string_view method, const google::protobuf::Message& request,
                                               std::chrono::milliseconds look_every, LookAt<Response> look) {
  auto* watch = new WatchStream<Response>(core, context, method, request, look_every, std::move(look));
  watch->Begin(*context);
  return watch;
}

}  // namespace lightcone::server
