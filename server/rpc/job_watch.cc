#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "base/status.h"
#include "grpcpp/alarm.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kMethod = "Jobs/Watch";
constexpr std::chrono::milliseconds kLookEvery{100};

// Looks at the job on the lane, writes it when it has changed, else sleeps in an alarm, which holds no thread. Exactly
// one of the three is under way at a time, so the state needs no lock. Busy while it looks or writes: a drain ends it
// at its next look.
class JobWatch final : public grpc::ServerWriteReactor<v1::JobsWatchResponse> {
 public:
  JobWatch(RpcCore* core, grpc::CallbackServerContext* context, const v1::JobsWatchRequest* request)
      : core_(core), id_(request->id()), started_(absl::Now()) {
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
  }

  void Next() {
    const absl::Status admitted = core_->Enter();
    if (!admitted.ok()) return End(admitted);
    const absl::Status queued = core_->operate_lane().Submit([this] { Look(); });
    if (queued.ok()) return;
    core_->Leave();
    End(queued);
  }

  void OnWriteDone(bool ok) override {
    core_->Leave();
    if (!ok) return End(MakeStatus(absl::StatusCode::kCancelled, "the client went away"));
    if (last_) return End(absl::OkStatus());
    Next();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  void Look() {
    RpcCore* const core = core_;  // the object may be gone once the transport has the answer or the status
    bool news = false;
    const absl::Status status = Guarded([&]() -> absl::Status {
      LC_RETURN_IF_ERROR(StillWanted(context_, core_->Now()));
      LC_ASSIGN_OR_RETURN(const JobStatus job, core_->engine().GetJob(id_));
      news = seen_ != job.changes;
      seen_ = job.changes;
      last_ = job.final();
      response_.Clear();
      if (news) ToWire(job, response_.mutable_job());
      return absl::OkStatus();
    });
    if (status.ok() && news) {
      StartWrite(&response_);  // OnWriteDone leaves
      return;
    }
    if (status.ok()) {
      alarm_.Set(std::chrono::system_clock::now() + kLookEvery, [this](bool) { Next(); });
    } else {
      End(status);
    }
    core->Leave();
  }

  void End(const absl::Status& status) {
    core_->Observe(kMethod, status, started_);
    Finish(ToGrpc(status));
  }

  RpcCore* const core_;
  const std::string id_;
  const absl::Time started_;
  CallContext context_;
  std::atomic<bool> cancelled_{false};
  std::optional<uint64_t> seen_;
  bool last_ = false;
  v1::JobsWatchResponse response_;
  grpc::Alarm alarm_;
};

}  // namespace

grpc::ServerWriteReactor<v1::JobsWatchResponse>* StartJobWatch(RpcCore* core, grpc::CallbackServerContext* context,
                                                               const v1::JobsWatchRequest* request) {
  auto* watch = new JobWatch(core, context, request);
  watch->Next();
  return watch;
}

}  // namespace lightcone::server
