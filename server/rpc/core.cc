#include "server/rpc/core.h"

#include <optional>
#include <utility>

#include "base/retry_after.h"
#include "base/status.h"

namespace lightcone::server {

RpcCore::RpcCore(Engine* engine, const RpcOptions& options)
    : engine_(engine),
      options_(options),
      gate_(engine, options.keys, options.writes),
      rules_(MakeMessageRules(options.message_bytes_max, engine->options().limits)),
      parse_budget_(options.parsed_bytes_max),
      read_lane_("read", options.read_lane, options.clock),
      write_lane_("write", options.write_lane, options.clock),
      operate_lane_("operate", options.operate_lane, options.clock),
      wait_lane_("wait", options.wait_lane, options.clock),
      // Every watch may have one job in the lane. Its threads stand back: a look is never urgent.
      watch_lane_("watch", {options.watch_threads, options.watches_max, options.write_lane.niceness}, options.clock) {}

namespace {

constexpr absl::Duration kWatchRetry = absl::Seconds(1);  // pause that a refused watch is told

std::optional<TraceParent> TraceParentOf(const grpc::CallbackServerContext& call) {
  const auto& metadata = call.client_metadata();
  const auto at = metadata.find("traceparent");
  if (at == metadata.end()) return std::nullopt;
  return ParseTraceParent({at->second.data(), at->second.size()});
}

absl::Status Draining() { return Unavailable("the server is shutting down; try another replica or retry later"); }

}  // namespace

absl::Status RpcCore::Enter() {
  absl::MutexLock lock(&mutex_);
  if (draining_) return Draining();
  ++busy_;
  return absl::OkStatus();
}

void RpcCore::EnterWork() {
  absl::MutexLock lock(&mutex_);
  ++busy_;
}

void RpcCore::Leave() {
  absl::MutexLock lock(&mutex_);
  --busy_;
}

absl::Status RpcCore::Add(DrainableStream* stream) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return Draining();
  streams_.insert(stream);
  return absl::OkStatus();
}

void RpcCore::Remove(DrainableStream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

absl::Status RpcCore::OpenWatch() {
  absl::MutexLock lock(&mutex_);
  if (watches_ >= options_.watches_max) {
    return WithRetryAfter(
        ResourceExhausted(StrCat(watches_, " watches are open; allowed by rpc.watches_max: ", options_.watches_max)),
        kWatchRetry);
  }
  ++watches_;
  return absl::OkStatus();
}

void RpcCore::CloseWatch() {
  absl::MutexLock lock(&mutex_);
  --watches_;
}

int64_t RpcCore::watches() const {
  absl::MutexLock lock(&mutex_);
  return watches_;
}

void RpcCore::BeginDrain() {
  std::vector<DrainableStream*> pinned;
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return;
    draining_ = true;
    for (DrainableStream* stream : streams_) {
      if (stream->Pin()) pinned.push_back(stream);
    }
  }
  // Outside the lock: ending a stream may call Remove on this very thread.
  for (DrainableStream* stream : pinned) stream->DrainPinned();
}

bool RpcCore::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

bool RpcCore::WaitIdle(absl::Time deadline) {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return busy_ == 0; };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline);
}

int64_t RpcCore::busy() const {
  absl::MutexLock lock(&mutex_);
  return busy_;
}

std::vector<LaneStats> RpcCore::Lanes() const {
  return {read_lane_.Stats(), write_lane_.Stats(), operate_lane_.Stats(), wait_lane_.Stats(), watch_lane_.Stats()};
}

void RpcCore::StopLanes() {
  for (Lane* lane : {&read_lane_, &write_lane_, &operate_lane_, &wait_lane_, &watch_lane_}) lane->Stop();
}

void RpcCore::Observe(const grpc::CallbackServerContext& call, const CallContext& context, std::string_view method,
                      const google::protobuf::Message* request, const absl::Status& status, absl::Time started) const {
  TraceId trace_id = context.trace_id;
  if (trace_id.empty() && !status.ok()) {  // The call ended before its trace began, or is of a kind without one.
    if (const auto parent = TraceParentOf(call)) trace_id = parent->trace;
  }
  if (!options_.audits || !options_.audits(method)) return Record(method, status, started, 0, nullptr, trace_id);
  const CallSubject subject = SubjectOf(call, context, method, request);
  Record(method, status, started, 0, &subject, trace_id);
}

void RpcCore::ObserveParts(const CallContext& context, std::string_view method, const absl::Status& error,
                           absl::Time started, uint64_t parts) const {
  Record(method, error, started, parts, nullptr, context.trace_id);
}

std::unique_ptr<Trace> RpcCore::BeginTrace(const grpc::CallbackServerContext& call, std::string_view method,
                                           CallContext* context) const {
  const std::optional<TraceParent> parent = TraceParentOf(call);
  std::unique_ptr<Trace> trace = options_.tracer == nullptr ? nullptr : options_.tracer->Begin(parent, method);
  context->trace = trace.get();
  context->trace_id = trace != nullptr ? trace->id() : parent ? parent->trace : TraceId();
  return trace;
}

void RpcCore::EndTrace(std::unique_ptr<Trace> trace, std::string_view method, const google::protobuf::Message* request,
                       const absl::Status& status, CallStage stage) const {
  if (trace == nullptr) return;
  trace->Set(Trace::kRoot, "rpc.method", std::string(method));
  std::string collection = request == nullptr ? "" : CollectionIn(method, *request);
  if (!collection.empty()) trace->Set(Trace::kRoot, "db.collection.name", std::move(collection));
  options_.tracer->End(std::move(trace), status.code(), stage);
}

void RpcCore::Record(std::string_view method, const absl::Status& status, absl::Time started, uint64_t parts,
                     const CallSubject* subject, const TraceId& trace_id) const {
  if (!options_.observe) return;
  const std::string message = MessageOf(status);
  options_.observe({method, static_cast<int>(status.code()), absl::Now() - started, message, parts, subject, trace_id});
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

absl::Status StillWanted(const CallContext& context, absl::Time now) {
  if (now >= context.deadline) return DeadlineExceeded("the call's deadline was over before its work began");
  if (context.cancelled && context.cancelled()) {
    return MakeStatus(absl::StatusCode::kCancelled, "the client cancelled the call");
  }
  return absl::OkStatus();
}

}  // namespace lightcone::server
