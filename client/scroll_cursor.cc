#include "client/scroll_cursor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "client/channel.h"

namespace lightcone::client {
namespace {

class StreamCursor : public ScrollCursor {
 public:
  StreamCursor(const Client::Impl& impl, const v1::ScrollRequest& request, const CallOptions& call)
      : impl_(impl), request_(request), call_(call), limited_(request.limit() > 0) {}

  ~StreamCursor() override { Close(/*cancel=*/true).IgnoreError(); }

  absl::StatusOr<bool> Next(v1::ScrollResponse* page) override {
    if (done_) return false;
    const absl::Time deadline = DeadlineOf(impl_.options, call_.timeout);
    Backoff backoff(impl_.options, call_.retries_max);
    for (;;) {
      if (stream_ == nullptr) Open(deadline);
      if (stream_->Read(page)) {
        Advance(*page);
        return true;
      }
      // A stream that gave pages before its deadline was over was not stuck: its reader took its time.
      const bool had_pages = pages_of_stream_ > 0;
      const absl::Status status = Close(/*cancel=*/false);
      if (status.ok()) {
        done_ = true;
        return false;
      }
      if (had_pages && status.code() == absl::StatusCode::kDeadlineExceeded) continue;
      if (!MayRetry(status) || !PauseBeforeRetry(deadline, &backoff)) return status;
    }
  }

  const std::string& token() const override { return request_.token(); }

 private:
  void Open(absl::Time deadline) {
    context_.emplace();
    Prepare(impl_.options, deadline, &*context_);
    stream_ = impl_.retrieval->Scroll(&*context_, request_);
    pages_of_stream_ = 0;
  }

  // The request of a stream that is opened from now on begins behind `page`.
  void Advance(const v1::ScrollResponse& page) {
    ++pages_of_stream_;
    request_.set_token(page.token());
    if (limited_) {
      const uint64_t left = request_.limit() - std::min<uint64_t>(request_.limit(), page.items_size());
      request_.set_limit(left);
      done_ = left == 0;
    }
    // The last page has no token: there is nothing behind it.
    if (page.token().empty()) done_ = true;
  }

  absl::Status Close(bool cancel) {
    if (stream_ == nullptr) return absl::OkStatus();
    if (cancel) context_->TryCancel();
    const absl::Status status = FromGrpc(stream_->Finish());
    stream_.reset();
    context_.reset();
    return status;
  }

  const Client::Impl& impl_;
  v1::ScrollRequest request_;
  const CallOptions call_;
  const bool limited_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<v1::ScrollResponse>> stream_;
  int64_t pages_of_stream_ = 0;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ScrollCursor> Client::Scroll(const v1::ScrollRequest& request, const CallOptions& call) {
  return std::make_unique<StreamCursor>(*impl_, request, call);
}

}  // namespace lightcone::client
