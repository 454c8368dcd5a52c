#include <memory>
#include <utility>

#include "client/channel.h"

namespace lightcone::client {

absl::StatusOr<v1::JobInfo> Client::WatchJob(const std::string& id, const std::function<void(const v1::JobInfo&)>& see,
                                             const CallOptions& call) {
  const absl::Time deadline = DeadlineOf(impl_->options, call.timeout);
  Backoff backoff(impl_->options, call.retries_max);
  v1::JobsWatchRequest request;
  request.set_id(id);
  v1::JobInfo last;
  for (;;) {
    grpc::ClientContext context;
    SetDeadline(deadline, &context);
    const std::unique_ptr<grpc::ClientReader<v1::JobsWatchResponse>> stream = impl_->jobs->Watch(&context, request);
    v1::JobsWatchResponse news;
    while (stream->Read(&news)) {
      backoff.Reset();
      last = news.job();
      see(last);
    }
    const absl::Status status = FromGrpc(stream->Finish());
    if (status.ok()) return last;
    if (!MayRetry(status) || !PauseBeforeRetry(deadline, &backoff)) return status;
  }
}

}  // namespace lightcone::client
