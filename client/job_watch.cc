#include <memory>
#include <utility>

#include "client/channel.h"

namespace lightcone::client {
namespace {

// Reads the stream that `open` opens until it ends in good order, again after a broken connection; `see` takes what it
// says. The last of it.
template <typename Response, typename Open, typename See>
absl::StatusOr<Response> WatchToTheEnd(const ClientOptions& options, const CallOptions& call, const Open& open,
                                       const See& see) {
  const absl::Time deadline = DeadlineOf(options, call.timeout);
  Backoff backoff(options, call.retries_max);
  Response last;
  for (;;) {
    grpc::ClientContext context;
    Prepare(options, deadline, &context);
    const std::unique_ptr<grpc::ClientReader<Response>> stream = open(&context);
    Response news;
    while (stream->Read(&news)) {
      backoff.Reset();
      last = news;
      see(last);
    }
    const absl::Status status = FromGrpc(stream->Finish());
    if (status.ok()) return last;
    if (!MayRetry(status) || !PauseBeforeRetry(deadline, &backoff)) return status;
  }
}

}  // namespace

absl::StatusOr<v1::JobInfo> OperatorCalls::WatchJob(const std::string& id,
                                                    const std::function<void(const v1::JobInfo&)>& see,
                                                    const CallOptions& call) {
  v1::JobsWatchRequest request;
  request.set_id(id);
  auto last = WatchToTheEnd<v1::JobsWatchResponse>(
      impl_->options, call, [&](grpc::ClientContext* context) { return impl_->jobs->Watch(context, request); },
      [&](const v1::JobsWatchResponse& news) { see(news.job()); });
  if (!last.ok()) return last.status();
  return std::move(*last->mutable_job());
}

absl::StatusOr<v1::TrainingJob> OperatorCalls::WatchTraining(const std::string& id,
                                                             const std::function<void(const v1::TrainingJob&)>& see,
                                                             const CallOptions& call) {
  v1::TrainingWatchRequest request;
  request.set_id(id);
  auto last = WatchToTheEnd<v1::TrainingWatchResponse>(
      impl_->options, call, [&](grpc::ClientContext* context) { return impl_->training->Watch(context, request); },
      [&](const v1::TrainingWatchResponse& news) { see(news.job()); });
  if (!last.ok()) return last.status();
  return std::move(*last->mutable_job());
}

absl::StatusOr<v1::StatusResponse> OperatorCalls::WatchBackfill(
    const std::string& collection, const std::function<void(const v1::StatusResponse&)>& see, const CallOptions& call) {
  v1::BackfillWatchRequest request;
  request.set_collection(collection);
  auto last = WatchToTheEnd<v1::BackfillWatchResponse>(
      impl_->options, call, [&](grpc::ClientContext* context) { return impl_->backfill->Watch(context, request); },
      [&](const v1::BackfillWatchResponse& news) { see(news.status()); });
  if (!last.ok()) return last.status();
  return std::move(*last->mutable_status());
}

}  // namespace lightcone::client
