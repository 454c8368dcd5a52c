#include "client/upsert_stream.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/channel.h"

namespace lightcone::client {
namespace {

using Stream = grpc::ClientReaderWriter<v1::UpsertStreamRequest, v1::UpsertStreamResponse>;

// One reader thread takes acknowledgements and, when the connection breaks, makes the next one. `write_mutex_` orders
// writes with reconnections: a batch is either written to the old connection (and sent again with all the others that
// are unacknowledged) or to the new one, never to both by two threads. A write blocks for as long as the server reads
// nothing, whoever makes it, so a third thread looks at the clock: its TryCancel ends the write.
class ReconnectingStream : public UpsertStream {
 public:
  ReconnectingStream(const Client::Impl& impl, UpsertStreamOptions options)
      : impl_(impl),
        options_(std::move(options)),
        backoff_(impl.options, impl.options.retry_writes ? options_.retries_max : 0) {
    timeout_ = options_.timeout == absl::ZeroDuration() ? impl.options.timeout : options_.timeout;
    if (options_.in_flight_max < 1 || options_.in_flight_max > 1024) {
      absl::MutexLock lock(&mutex_);
      status_ = InvalidField("in_flight_max", StrCat(options_.in_flight_max), "1 .. 1024");
      return;
    }
    Stream* stream = nullptr;
    {
      absl::MutexLock lock(&write_mutex_);
      stream = Connect();
    }
    reader_ = std::thread([this, stream] {
      ReadAll(stream);
      absl::MutexLock lock(&mutex_);
      ended_ = true;
      changed_.SignalAll();
    });
    watchdog_ = std::thread([this] { Watch(); });
  }

  ~ReconnectingStream() override {
    Fail(MakeStatus(absl::StatusCode::kCancelled, "the stream was abandoned"));
    Join();
  }

  absl::Status Send(v1::UpsertRequest batch, uint64_t tag) override {
    LC_RETURN_IF_ERROR(WaitForAtMost(static_cast<size_t>(options_.in_flight_max) - 1));
    absl::MutexLock write_lock(&write_mutex_);
    const v1::UpsertStreamRequest* request = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return status_;
      v1::UpsertStreamRequest& queued = unacknowledged_.emplace_back();
      *queued.mutable_batch() = std::move(batch);
      queued.set_tag(tag);
      if (unacknowledged_.size() == 1) {
        progress_ = absl::Now();
        changed_.SignalAll();
      }
      request = &queued;  // stays where it is until its acknowledgement, which cannot come before the write
    }
    // A write that fails is no news: the reader sees the same break, and sends what is unacknowledged again.
    stream_->Write(*request);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (!reader_.joinable()) {
      absl::MutexLock lock(&mutex_);
      return status_;
    }
    const absl::Status status = WaitForAtMost(0);
    if (status.ok()) {
      absl::MutexLock write_lock(&write_mutex_);
      bool open = false;
      {
        absl::MutexLock lock(&mutex_);
        closing_ = true;
        open = status_.ok();
      }
      if (open) stream_->WritesDone();
    }
    {
      // A server that does not close its side must not hold us.
      absl::MutexLock lock(&mutex_);
      const absl::Time deadline = absl::Now() + timeout_;
      while (!ended_ && absl::Now() < deadline) changed_.WaitWithDeadline(&mutex_, deadline);
      if (!ended_ && context_.has_value()) context_->TryCancel();
    }
    Join();
    // Once everything is acknowledged, how the connection ends is of no interest.
    return status;
  }

 private:
  // Blocks until at most `count` batches are unacknowledged, or the stream has failed.
  absl::Status WaitForAtMost(size_t count) {
    absl::MutexLock lock(&mutex_);
    while (status_.ok() && unacknowledged_.size() > count) changed_.Wait(&mutex_);
    return status_;
  }

  // Fails the stream when a batch is unacknowledged and nothing moved for timeout_.
  void Watch() {
    absl::MutexLock lock(&mutex_);
    while (!ended_) {
      if (!status_.ok() || unacknowledged_.empty()) {
        changed_.Wait(&mutex_);
      } else if (absl::Now() < progress_ + timeout_) {
        changed_.WaitWithDeadline(&mutex_, progress_ + timeout_);
      } else {
        FailLocked(DeadlineExceeded(StrCat("no acknowledgement for ", absl::FormatDuration(timeout_), "; ",
                                           unacknowledged_.size(), " batches are unacknowledged")));
      }
    }
  }

  void Join() {
    if (reader_.joinable()) reader_.join();
    if (watchdog_.joinable()) watchdog_.join();
  }

  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    FailLocked(status);
  }

  void FailLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status_.ok()) status_ = status;
    if (context_.has_value()) context_->TryCancel();
    changed_.SignalAll();
  }

  // Opens a connection and sends what is unacknowledged.
  Stream* Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_) {
    grpc::ClientContext* context = nullptr;
    std::deque<v1::UpsertStreamRequest>* queue = nullptr;
    size_t count = 0;
    {
      absl::MutexLock lock(&mutex_);
      context_.emplace();
      context = &*context_;
      Prepare(impl_.options, absl::InfiniteFuture(), context);
      if (!status_.ok()) context->TryCancel();
      queue = &unacknowledged_;
      count = unacknowledged_.size();
    }
    stream_ = impl_.retrieval->UpsertStream(context);
    // Nothing else touches the queue now: senders wait for write_mutex_, and acknowledgements are read by this thread.
    for (size_t i = 0; i < count; ++i) {
      if (!stream_->Write((*queue)[i])) break;
    }
    return stream_.get();
  }

  void ReadAll(Stream* stream) {
    for (;;) {
      v1::UpsertStreamResponse answer;
      while (stream->Read(&answer)) {
        const absl::Status status = Acknowledge(answer);
        if (!status.ok()) Fail(status);
      }
      absl::MutexLock write_lock(&write_mutex_);
      absl::Status status = FromGrpc(stream->Finish());
      {
        absl::MutexLock lock(&mutex_);
        if (!status_.ok() || (closing_ && unacknowledged_.empty())) return;
        if (status.ok()) status = Unavailable("the server closed the stream");
        if (!MayRetry(status) || !PauseLocked()) {
          FailLocked(status);
          return;
        }
        context_.reset();
      }
      stream = Connect();
    }
  }

  // Tells the callback, then forgets the batch: when Finish returns, every callback has been called.
  absl::Status Acknowledge(const v1::UpsertStreamResponse& answer) {
    uint64_t tag = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (unacknowledged_.empty()) return Internal("the server acknowledged a batch that was not sent");
      tag = unacknowledged_.front().tag();
    }
    if (answer.tag() != tag) {
      return Internal(StrCat("the server acknowledged batch ", answer.tag(), " before batch ", tag));
    }
    if (options_.on_acknowledge) {
      if (answer.has_error()) {
        options_.on_acknowledge(tag, StatusOf(answer.error()));
      } else {
        options_.on_acknowledge(tag, answer.written());
      }
    }
    absl::MutexLock lock(&mutex_);
    unacknowledged_.pop_front();
    progress_ = absl::Now();
    backoff_.Reset();
    changed_.SignalAll();
    return absl::OkStatus();
  }

  // False when there is no further try, or the stream failed meanwhile.
  bool PauseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Duration pause = backoff_.Next(absl::InfiniteFuture());
    if (pause < absl::ZeroDuration()) return false;
    const absl::Time end = absl::Now() + pause;
    while (status_.ok() && absl::Now() < end) changed_.WaitWithDeadline(&mutex_, end);
    return status_.ok();
  }

  const Client::Impl& impl_;
  const UpsertStreamOptions options_;
  absl::Duration timeout_;
  std::thread reader_, watchdog_;

  absl::Mutex write_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(write_mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::UpsertStreamRequest> unacknowledged_ ABSL_GUARDED_BY(mutex_);
  absl::Time progress_ ABSL_GUARDED_BY(mutex_) = absl::Now();  // time of the last acknowledgement, or of a first batch
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the reader has done its last
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<UpsertStream> Client::OpenUpsertStream(UpsertStreamOptions options) {
  return std::make_unique<ReconnectingStream>(*impl_, std::move(options));
}

}  // namespace lightcone::client
