#include <atomic>
#include <deque>
#include <memory>
#include <utility>

#include "base/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kUpsertStreamMethod = "Retrieval/UpsertStream";

// A batch that was read, with its part of the budget.
struct Batch {
  v1::UpsertStreamRequest message;
  ParsedBytes taken;
  absl::Status refused;  // error of a batch that was not parsed; its message has a tag alone
};

// The tag of a message whose batch is left out; 0 where it has none.
uint64_t TagOf(const grpc::ByteBuffer& bytes) {
  using WireFormat = google::protobuf::internal::WireFormatLite;
  grpc::ByteBuffer copy(bytes);  // shares the slices
  grpc::ProtoBufferReader reader(&copy);
  google::protobuf::io::CodedInputStream in(&reader);
  const uint32_t wanted = WireFormat::MakeTag(v1::UpsertStreamRequest::kTagFieldNumber, WireFormat::WIRETYPE_VARINT);
  uint64_t tag = 0;
  while (const uint32_t field = in.ReadTag()) {
    if (field == wanted ? !in.ReadVarint64(&tag) : !WireFormat::SkipField(&in, field)) break;
  }
  return tag;
}

// INVALID_ARGUMENT says what is wrong with the bytes of message `number`. A batch for which there is no memory is
// refused by itself.
absl::Status ParseMessage(RpcCore* core, grpc::ByteBuffer* bytes, uint64_t number, Batch* batch) {
  const MessageRules& rules = core->RulesOf(*v1::UpsertStreamRequest::descriptor());
  absl::StatusOr<ParsedBytes> taken = ParseChecked(rules, &core->parse_budget(), bytes, &batch->message);
  if (taken.ok()) {
    batch->taken = *std::move(taken);
    return absl::OkStatus();
  }
  if (taken.status().code() == absl::StatusCode::kResourceExhausted) {
    batch->refused = taken.status();
    batch->message.set_tag(TagOf(*bytes));
    return absl::OkStatus();
  }
  const FieldErrorParts parts = PartsOf(taken.status());
  const absl::Status error = InvalidArgument(StrCat("message ", number, " of the stream: ", MessageOf(taken.status()),
                                                    "; neither it nor a later message is written"));
  return parts.field.empty() ? error : WithField(error, parts);
}

grpc::ByteBuffer BytesOf(const v1::UpsertStreamResponse& answer) {
  const grpc::Slice slice(answer.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// A state machine: whoever changes the state calls Pump, which starts whatever is possible now. gRPC may run a reaction
// inside the call that started the operation, so operations are started without the lock; `starting_` counts threads
// between the decision and the end of the call, and keeps Finish (after which the object may be gone) until they are
// out. A batch keeps the stream busy from the end of its read to the end of its answer's write, so that a drain waits
// until every batch that was read is answered. Messages travel as bytes and are parsed here: the transport would tell
// neither a message that does not parse nor the end of the stream from the other.
class UpsertStreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                               public DrainableStream {
 public:
  UpsertStreamCall(RpcCore* core, grpc::CallbackServerContext* context)
      : core_(core), call_(*context), started_(absl::Now()) {
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
  }

  void Begin(const grpc::CallbackServerContext& context) {
    absl::StatusOr<Caller> caller = core_->gate().Admit(context, kUpsertStreamMethod, &context_);
    const absl::Status added = caller.ok() ? core_->Add(this) : caller.status();
    if (caller.ok()) caller_ = *std::move(caller);
    {
      absl::MutexLock lock(&mutex_);
      refused_ = added;
    }
    Pump(/*pinned=*/false);
  }

  void OnReadDone(bool ok) override {
    // Not under the lock: a drain takes the core's before this one.
    if (ok) core_->EnterWork();
    Batch batch;
    const absl::Status parsed = ok ? ParseMessage(core_, &incoming_, ++messages_read_, &batch) : absl::OkStatus();
    incoming_.Clear();
    bool taken = false;
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      taken = ok && parsed.ok() && !draining_;
      if (taken) {
        pending_.push_back(std::move(batch));
      } else {
        read_closed_ = true;
        if (!parsed.ok()) refused_ = parsed;
      }
    }
    if (ok && !taken) core_->Leave();
    Pump(false);
  }

  void OnWriteDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      answers_.pop_front();
      if (!ok) cancelled_.store(true);
    }
    core_->Leave();
    Pump(false);
  }

  void OnCancel() override {
    cancelled_.store(true);
    Pump(false);
  }

  void OnDone() override {
    core_->Remove(this);
    size_t unanswered = 0;  // batches of a client that went away
    {
      absl::MutexLock lock(&mutex_);
      unanswered = pending_.size() + answers_.size();
    }
    for (; unanswered > 0; --unanswered) core_->Leave();
    delete this;
  }

  bool Pin() override {
    absl::MutexLock lock(&mutex_);
    if (!finished_) ++starting_;
    return !finished_;
  }

  void DrainPinned() override {
    {
      absl::MutexLock lock(&mutex_);
      draining_ = true;
    }
    Pump(/*pinned=*/true);
  }

 private:
  enum class Action { kNone, kRead, kWrite, kWork, kFinish };

  // `pinned`: the caller holds one count of starting_, given back here.
  void Pump(bool pinned) {
    for (bool holding = pinned;; holding = true) {
      Action action;
      absl::Status end;
      {
        absl::MutexLock lock(&mutex_);
        if (holding) --starting_;
        action = Next(&end);
        if (action == Action::kNone) return;
        ++starting_;
      }
      switch (action) {
        case Action::kRead:
          StartRead(&incoming_);
          break;
        case Action::kWrite:
          outgoing_ = BytesOf(*answer_);
          StartWrite(&outgoing_);
          break;
        case Action::kWork:
          Dispatch();
          break;
        case Action::kFinish:
          core_->Observe(call_, context_, kUpsertStreamMethod, nullptr, end, started_);
          caller_.slot.Release();
          Finish(ToGrpc(end));
          return;
        case Action::kNone:
          break;
      }
    }
  }

  Action Next(absl::Status* end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return Action::kNone;
    const bool cancelled = cancelled_.load();
    if (!writing_ && !answers_.empty() && !cancelled) {
      writing_ = true;
      answer_ = &answers_.front();
      return Action::kWrite;
    }
    if (!running_ && !pending_.empty() && !cancelled) {
      running_ = true;
      current_ = std::move(pending_.front());
      pending_.pop_front();
      return Action::kWork;
    }
    const int64_t held = static_cast<int64_t>(pending_.size() + answers_.size()) + (running_ ? 1 : 0);
    if (!reading_ && !read_closed_ && !draining_ && !cancelled && refused_.ok() &&
        held < core_->options().stream_batches_max) {
      reading_ = true;
      return Action::kRead;
    }
    const bool answered = pending_.empty() && answers_.empty();
    if (running_ || writing_ || starting_ > 0) return Action::kNone;
    if (cancelled) {
      *end = MakeStatus(absl::StatusCode::kCancelled, "the client cancelled the stream");
    } else if (!refused_.ok()) {
      *end = refused_;
    } else if (draining_ && answered) {
      *end = Unavailable("the server is shutting down; every batch that was read is answered, send the others again");
    } else if (!(read_closed_ && answered)) {
      return Action::kNone;
    }
    finished_ = true;
    return Action::kFinish;
  }

  // A stream may live for days: each of its batches has a trace of its own, by the header of the stream. It begins as
  // the batch is taken up: its wait for those before it is told by theirs.
  void Dispatch() {
    trace_ = core_->BeginTrace(call_, kUpsertStreamMethod, &context_);
    const int64_t queued_ns = trace_ == nullptr ? 0 : SteadyNanos();
    const auto run = [this, queued_ns](const absl::Status& admitted) {
      if (trace_ != nullptr) trace_->Add("queue", Trace::kRoot, queued_ns, SteadyNanos());
      v1::UpsertStreamResponse answer;
      if (admitted.ok()) {
        Write(&answer);
      } else {
        Refuse(admitted, absl::Now(), CallStage::kRefused, &answer);
      }
      Answered(std::move(answer));
    };
    if (!current_.refused.ok()) return run(current_.refused);
    core_->write_lane().Submit({run, context_.deadline});
  }

  // The stream goes on, and ends well: what is told of it does not show this.
  void Refuse(const absl::Status& error, absl::Time started, CallStage stage, v1::UpsertStreamResponse* answer) {
    core_->ObserveParts(context_, kUpsertStreamMethod, error, started, 1);
    EndTrace(error, stage);
    *answer->mutable_error() = ToPartError(error);
  }

  void Write(v1::UpsertStreamResponse* answer) {
    const absl::Time started = absl::Now();
    CallStage stage = CallStage::kRefused;
    const absl::Status status = Guarded([&]() -> absl::Status {
      LC_RETURN_IF_ERROR(StillWanted(context_, core_->Now()));
      LC_RETURN_IF_ERROR(core_->gate().CheckRequest(caller_, current_.message.batch()));
      stage = CallStage::kWorked;
      LC_ASSIGN_OR_RETURN(UpsertBatch batch, FromWire(current_.message.batch()));
      const Durability durability = batch.durability;
      context_.meter = core_->gate().MeterOf(caller_);  // Each batch may be refused.
      LC_ASSIGN_OR_RETURN(const WriteResult result, core_->engine().Upsert(std::move(batch), context_));
      ToWire(result, durability, answer->mutable_written());
      return absl::OkStatus();
    });
    if (!status.ok()) return Refuse(status, started, stage, answer);
    EndTrace(status, stage);
  }

  void EndTrace(const absl::Status& status, CallStage stage) {
    context_.trace = nullptr;
    context_.trace_id = {};  // The stream's own end is none of this batch.
    core_->EndTrace(std::move(trace_), kUpsertStreamMethod, &current_.message.batch(), status, stage);
  }

  void Answered(v1::UpsertStreamResponse answer) {
    answer.set_tag(current_.message.tag());
    current_ = {};
    {
      absl::MutexLock lock(&mutex_);
      answers_.push_back(std::move(answer));
      running_ = false;
      ++starting_;  // the object must live until the Pump below
    }
    Pump(/*pinned=*/true);
  }

  RpcCore* const core_;
  const grpc::CallbackServerContext& call_;
  const absl::Time started_;
  CallContext context_;
  Caller caller_;
  std::atomic<bool> cancelled_{false};
  grpc::ByteBuffer incoming_, outgoing_;              // messages of the read and of the write in progress
  uint64_t messages_read_ = 0;                        // one read at a time counts them
  Batch current_;                                     // batch that runs
  std::unique_ptr<Trace> trace_;                      // null: that batch is not traced
  const v1::UpsertStreamResponse* answer_ = nullptr;  // message of the write in progress, an element of answers_
  absl::Mutex mutex_;
  std::deque<Batch> pending_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::UpsertStreamResponse> answers_ ABSL_GUARDED_BY(mutex_);
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);  // Ends the stream once what was read before is answered.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartUpsertStream(RpcCore* core,
                                                                               grpc::CallbackServerContext* context) {
  auto* call = new UpsertStreamCall(core, context);
  call->Begin(*context);
  return call;
}

}  // namespace lightcone::server
