#include "server/trace/tracer.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "base/dcheck.h"
#include "base/priority.h"
#include "base/rng.h"
#include "base/status.h"
#include "outbound/outbound_client.h"
#include "server/trace/otlp_json.h"
#include "server/trace/trace_endpoint.h"

namespace lightcone::server {
namespace {

constexpr int kNiceness = 10;  // Searches go first.
constexpr absl::Duration kLogPause = absl::Minutes(1);
constexpr absl::Duration kRetryMax = absl::Seconds(30);
constexpr size_t kReplyBytesMax = 64 << 10;  // bytes of a reply that are read

uint64_t RandomNumber() {
  thread_local Rng random = [] {
    std::random_device device;
    return Rng(MixSeed({device(), device(), device(), device()}));
  }();
  return random.Next();
}

// Of this process among those of its name.
std::string InstanceName() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) return StrCat(::getpid());
  return StrCat(host, ":", ::getpid());
}

}  // namespace

Tracer::Tracer(TracerOptions options) : options_(std::move(options)) {
  LC_DCHECK(CheckTraceEndpoint(options_.endpoint).ok());
  LC_DCHECK(options_.sample_share >= 0 && options_.sample_share <= 1);
  if (options_.endpoint.empty()) return;
  {
    absl::MutexLock lock(&mutex_);
    queue_.reserve(options_.queue_max);  // No call then fails for want of memory as it ends.
  }
  client_ = std::make_unique<OutboundClient>();
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() { Stop(); }

std::unique_ptr<Trace> Tracer::Begin(const std::optional<TraceParent>& parent, std::string_view method,
                                     int64_t began_ns) {
  if (options_.endpoint.empty()) return nullptr;
  constexpr uint64_t kFirstSpanMax = INT64_MAX;
  if (parent) {
    if (!parent->sampled) return nullptr;
    return std::make_unique<Trace>(method, parent->trace, parent->span, (RandomNumber() & kFirstSpanMax) | 1, began_ns);
  }
  // A number of its own: others sample by the digits of the id, which must not depend on our share.
  if (static_cast<double>(RandomNumber() >> 11) * 0x1p-53 >= options_.sample_share) return nullptr;
  const TraceId id = {RandomNumber() | 1, RandomNumber()};
  return std::make_unique<Trace>(method, id, 0, (RandomNumber() & kFirstSpanMax) | 1, began_ns);
}

void Tracer::End(std::unique_ptr<Trace> trace, absl::StatusCode code, CallStage stage) {
  if (trace == nullptr) return;
  trace->End(Trace::kRoot);
  const bool idle =
      stage == CallStage::kRefused || code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kNotFound;
  const size_t room = idle ? options_.queue_max / 2 : options_.queue_max;
  absl::MutexLock lock(&mutex_);
  const bool ended = end_ns_ != kNever;
  if (ended || queue_.size() >= room) {
    const SpanLoss loss = ended ? SpanLoss::kFailed : SpanLoss::kQueueFull;
    figures_.dropped_total[static_cast<size_t>(loss)] += trace->size();
    return;
  }
  queue_.push_back({std::move(trace), code});
  if (queue_.size() == options_.batch_max) changed_.Signal();
}

TraceFigures Tracer::figures() const {
  absl::MutexLock lock(&mutex_);
  return figures_;
}

void Tracer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (end_ns_ == kNever) end_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(options_.stop_time);
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void Tracer::Run() {
  StandBack(kNiceness);
  std::vector<Ended> batch;
  batch.reserve(options_.batch_max);
  for (; Take(&batch); batch.clear()) {
    if (batch.empty()) continue;
    uint64_t spans = 0;
    for (const Ended& ended : batch) spans += ended.trace->size();
    TraceFigures told;
    try {
      told = Send(&batch);
    } catch (...) {  // Mostly memory is missing: the server goes on without these spans.
      told = {};
      told.dropped_total[static_cast<size_t>(SpanLoss::kFailed)] = spans;
    }
    absl::MutexLock lock(&mutex_);
    figures_.exported_total += told.exported_total;
    for (size_t i = 0; i < told.dropped_total.size(); ++i) figures_.dropped_total[i] += told.dropped_total[i];
  }
}

bool Tracer::Take(std::vector<Ended>* batch) {
  absl::MutexLock lock(&mutex_);
  if (queue_.size() < options_.batch_max && end_ns_ == kNever) changed_.WaitWithTimeout(&mutex_, options_.pause);
  if (queue_.empty()) return end_ns_ == kNever;
  const auto end = queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), options_.batch_max));
  std::move(queue_.begin(), end, std::back_inserter(*batch));
  queue_.erase(queue_.begin(), end);
  return true;
}

TraceFigures Tracer::Send(std::vector<Ended>* batch) {
  TraceFigures told;
  uint64_t& failed = told.dropped_total[static_cast<size_t>(SpanLoss::kFailed)];
  if (MustEnd()) {
    for (const Ended& ended : *batch) failed += ended.trace->size();
    return told;
  }
  std::string body = OtlpHead(options_.version, InstanceName());
  SpanCounts counts;
  for (Ended& ended : *batch) {
    if (counts.spans > 0) body += ',';
    const SpanCounts added = AppendSpans(ended.code, ended.trace.get(), &body);
    counts.spans += added.spans;
    counts.dropped += added.dropped;
    ended.trace.reset();
  }
  body += kOtlpTail;
  told.dropped_total[static_cast<size_t>(SpanLoss::kBound)] = counts.dropped;
  const Reply reply = TrySending(body, counts.spans);
  failed = reply.outcome == Outcome::kTaken ? reply.rejected : counts.spans;
  told.exported_total = counts.spans - failed;
  return told;
}

Tracer::Reply Tracer::TrySending(const std::string& body, uint64_t spans) {
  absl::Duration pause = options_.retry_min;
  bool last = false;
  for (int tried = 1;; ++tried, pause *= 2) {
    Reply reply = TryOnce(body);
    reply.rejected = std::min(reply.rejected, spans);
    if (reply.outcome != Outcome::kTryAgain || last || tried >= options_.tries) return reply;
    last = Pause(reply.retry_after.value_or(pause));
    if (MustEnd()) return reply;
  }
}

Tracer::Reply Tracer::TryOnce(const std::string& body) {
  constexpr std::string_view kAdvice = "; further failures are counted in lightcone_trace_spans_dropped_total";
  const absl::StatusOr<OutboundReply> reply = client_->Send({.url = options_.endpoint,
                                                             .method = "POST",
                                                             .headers = {"Content-Type: application/json"},
                                                             .body = body,
                                                             .answer_bytes_max = kReplyBytesMax,
                                                             .long_answer = LongAnswer::kIsCut,
                                                             .limit = options_.request_time,
                                                             .cancelled = [this] { return MustEnd(); }});
  if (!reply.ok()) {
    Log(StrCat("traces cannot be sent to trace.endpoint: ", MessageOf(reply.status()), kAdvice));
    return {.outcome = Outcome::kTryAgain};
  }
  const long status = reply->status;
  if (status >= 200 && status < 300) {
    const PartialSuccess partial = ReadReply(reply->body);
    if (partial.rejected > 0 || !partial.message.empty()) {
      Log(StrCat("the collector at trace.endpoint rejected ", partial.rejected,
                 " spans: ", partial.message.empty() ? "it does not say why" : partial.message, kAdvice));
    }
    return {.outcome = Outcome::kTaken, .rejected = partial.rejected};
  }
  Log(StrCat("traces cannot be sent to trace.endpoint: HTTP status ", status, kAdvice));
  // The only ones that OTLP lets a client try again.
  const bool hope = status == 429 || status == 502 || status == 503 || status == 504;
  return {.outcome = hope ? Outcome::kTryAgain : Outcome::kRefused, .retry_after = reply->retry_after};
}

bool Tracer::Pause(absl::Duration pause) {
  const int64_t until = SteadyNanos() + absl::ToInt64Nanoseconds(std::min(pause, kRetryMax));
  absl::MutexLock lock(&mutex_);
  // A full batch wakes the thread, too.
  for (int64_t left = 0; end_ns_ == kNever && (left = until - SteadyNanos()) > 0;) {
    changed_.WaitWithTimeout(&mutex_, absl::Nanoseconds(left));
  }
  return end_ns_ != kNever;
}

bool Tracer::MustEnd() const {
  absl::MutexLock lock(&mutex_);
  return end_ns_ != kNever && SteadyNanos() >= end_ns_;
}

void Tracer::Log(const std::string& what) {
  const int64_t now = SteadyNanos();
  if (!options_.log || now < log_next_ns_) return;
  log_next_ns_ = now + absl::ToInt64Nanoseconds(kLogPause);
  options_.log(what);
}

}  // namespace lightcone::server
