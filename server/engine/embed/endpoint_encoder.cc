#include "server/engine/embed/endpoint_encoder.h"

#include <algorithm>
#include <exception>
#include <new>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/retry_after.h"
#include "base/status.h"
#include "base/utf8.h"
#include "outbound/outbound_client.h"
#include "server/engine/collection/checks.h"
#include "server/engine/embed/endpoint_key.h"
#include "server/engine/embed/endpoint_messages.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kEndpointPoll = absl::Milliseconds(20);  // pause between looks for a caller that is gone
constexpr size_t kBatchBytesMax = 8 << 20;  // bytes of the texts of one request, but one text at least
constexpr int kRefusalsMax = 24;            // refused requests of one batch
// Times that a backfill's texts wait behind documents, and behind queries. All backfills of the server wait with them.
constexpr absl::Duration kBackfillPatience = absl::Seconds(1), kBackfillPatienceMax = absl::Seconds(10);
constexpr absl::Duration kMemoryPause = absl::Milliseconds(100);     // pause of a thread that finds no memory
constexpr absl::Duration kEndpointConnectLimit = absl::Seconds(10);  // limit for the connection of a request

absl::Status EndpointStopped() { return Unavailable("the encoder's endpoint is not served any more"); }

// Half of the pause or more, so that callers do not come back together.
absl::Duration Jittered(absl::Duration pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  return pause * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

bool MayHelpToTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

// Posts JSON to the endpoint, and nowhere else. An empty `key` is not sent.
OutboundRequest MakeEndpointRequest(const EndpointManifest& endpoint, const std::string& key, const std::string& body) {
  OutboundRequest request{.url = endpoint.url, .schemes = endpoint.scheme, .method = "POST", .body = body};
  request.headers = {"Content-Type: application/json", "Accept: application/json"};
  if (!key.empty()) request.headers.push_back(StrCat("Authorization: Bearer ", key));
  request.connect_limit = kEndpointConnectLimit;
  return request;
}

absl::Status StatusOfReply(const OutboundReply& reply, const std::string& key) {
  const std::string text = EndpointErrorText(reply.body, key);
  const std::string what = StrCat("HTTP status ", reply.status, text.empty() ? "" : ": ", text);
  switch (reply.status) {
    case 400:
    case 413:
    case 422:
      return InvalidArgument(what);
    case 408:
      return Unavailable(what);
    case 429:
      return ResourceExhausted(what);
    case 401:
    case 403:  // What the endpoint says may show parts of the key.
      return FailedPrecondition(StrCat("HTTP status ", reply.status, ": the endpoint refuses the key, or wants one"));
    default:
      break;
  }
  if (reply.status >= 500) return Unavailable(what);
  if (reply.status >= 300 && reply.status < 400) {
    return FailedPrecondition(StrCat("HTTP status ", reply.status, ": redirects are not followed"));
  }
  return FailedPrecondition(what);
}

}  // namespace

EndpointEncoder::EndpointEncoder(EndpointManifest endpoint, int dimension, EndpointEncoderOptions options,
                                 ThreadStarter* starter)
    : endpoint_(std::move(endpoint)),
      dimension_(dimension),
      options_(std::move(options)),
      starter_(starter),
      texts_max_(EndpointTextsMax(endpoint_, dimension)),
      breaker_(std::max(options_.endpoints.failures_max, endpoint_.concurrency + 1), options_.endpoints.rest) {
  LC_DCHECK(CheckEndpointAllowed(endpoint_, options_.endpoints).ok());
}

EndpointEncoder::~EndpointEncoder() {
  Stop();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mu_);
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void EndpointEncoder::Stop() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
}

absl::StatusOr<EmbeddedInputs> EndpointEncoder::Embed(std::span<const std::string> texts, EmbedRole role,
                                                      const CallContext& context) {
  LC_DCHECK(std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return IsUtf8(text); }));
  EmbeddedInputs outputs;
  outputs.reserve(texts.size());
  // A large call goes through the queue piece by piece, so that it neither fills it nor starves the others.
  const size_t piece = texts_max_ * static_cast<size_t>(endpoint_.concurrency);
  while (outputs.size() < texts.size()) {
    const size_t begin = outputs.size();
    const auto part = texts.subspan(begin, std::min(piece, texts.size() - begin));
    LC_RETURN_IF_ERROR(EmbedPiece(part, role, context, &outputs));
    // An endpoint that gives no vector for a whole piece gives the others none.
    const bool works = std::any_of(outputs.begin() + static_cast<ptrdiff_t>(begin), outputs.end(),
                                   [](const auto& output) { return output.ok(); });
    const absl::Status last = outputs.back().status();
    if (!works && !absl::IsInvalidArgument(last)) outputs.resize(texts.size(), last);
  }
  return outputs;
}

absl::Status EndpointEncoder::EmbedPiece(std::span<const std::string> texts, EmbedRole role, const CallContext& context,
                                         EmbeddedInputs* outputs) {
  LC_RETURN_IF_ERROR(CheckAlive(context, "embed"));
  const bool is_query = role == EmbedRole::kQuery;
  Tickets tickets;
  for (const std::string& text : texts) {
    tickets.push_back(std::make_shared<Ticket>());
    tickets.back()->text = (is_query ? endpoint_.query_prefix : endpoint_.document_prefix) + text;
    tickets.back()->deadline = context.deadline;
    tickets.back()->since = absl::Now();
  }
  absl::MutexLock lock(&mu_);
  const auto waiting = static_cast<int64_t>(Waiting());
  if (role != EmbedRole::kBackfill && waiting > 0 &&
      waiting + static_cast<int64_t>(texts.size()) > options_.queue_max) {
    outputs->resize(outputs->size() + texts.size(),
                    ResourceExhausted(StrCat(waiting, " texts are waiting to be embedded, of at most ",
                                             options_.queue_max, " (encoder.queue_max); try again later")));
    return absl::OkStatus();
  }
  StartThread();
  auto& queue = QueueOf(role);
  queue.insert(queue.end(), tickets.begin(), tickets.end());
  LC_RETURN_IF_ERROR(Await(tickets, context));
  for (const auto& ticket : tickets) {
    outputs->push_back(ticket->done ? std::move(ticket->output) : EndpointStopped());
  }
  return absl::OkStatus();
}

absl::Status EndpointEncoder::Await(const Tickets& tickets, const CallContext& context) {
  const auto served = [this, &tickets]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopping_ || std::all_of(tickets.begin(), tickets.end(), [](const auto& t) { return t->done; });
  };
  while (!mu_.AwaitWithDeadline(absl::Condition(&served), std::min(context.deadline, absl::Now() + kEndpointPoll))) {
    const absl::Status alive = CheckAlive(context, "embed");
    if (alive.ok()) continue;
    for (const auto& ticket : tickets) {
      ticket->left = true;
      for (auto& queue : queues_) std::erase(queue, ticket);
    }
    return alive;
  }
  return absl::OkStatus();
}

void EndpointEncoder::StartThread() {
  if (stopping_ || idle_ > 0 || threads_.size() >= static_cast<size_t>(endpoint_.concurrency)) return;
  threads_.reserve(static_cast<size_t>(endpoint_.concurrency));  // before there is a thread that could not be kept
  try {
    threads_.push_back(starter_->Start([this] { Work(); }));
  } catch (const std::exception&) {
    if (threads_.empty()) throw;  // Else those that run take the texts.
  }
}

bool EndpointEncoder::BackfillIsDue() const {
  const auto& texts = queues_[static_cast<size_t>(EmbedRole::kBackfill)];
  const bool no_query = queues_[static_cast<size_t>(EmbedRole::kQuery)].empty();
  return !texts.empty() && backfill_requests_ == 0 && !overtook_ &&
         absl::Now() - texts.front()->since > (no_query ? kBackfillPatience : kBackfillPatienceMax);
}

size_t EndpointEncoder::Ready() const {
  if (Waiting() > 0 || backfill_requests_ >= BackfillRequestsMax(endpoint_.concurrency)) return Waiting();
  return queues_[static_cast<size_t>(EmbedRole::kBackfill)].size();
}

EndpointEncoder::Taken EndpointEncoder::TakeBatch() {
  Taken batch;
  if (Ready() == 0) return batch;
  const size_t texts = std::min(texts_max_, Waiting() + QueueOf(EmbedRole::kBackfill).size());
  batch.tickets.reserve(texts);
  batch.unanswered.assign(texts, ResourceExhausted("out of memory"));
  overtook_ = Waiting() > 0 && BackfillIsDue();
  batch.of_backfill = Waiting() == 0 || overtook_;
  size_t bytes = 0;
  for (const EmbedRole role : {EmbedRole::kQuery, EmbedRole::kDocument, EmbedRole::kBackfill}) {
    auto& queue = QueueOf(role);
    if ((role == EmbedRole::kBackfill) != batch.of_backfill) continue;
    while (!queue.empty() && batch.tickets.size() < texts_max_ &&
           (batch.tickets.empty() || bytes + queue.front()->text.size() <= kBatchBytesMax)) {
      bytes += queue.front()->text.size();
      batch.tickets.push_back(std::move(queue.front()));
      queue.pop_front();
    }
  }
  // To be shortened alone, which needs no memory: the tickets are in no queue any more.
  batch.unanswered.erase(batch.unanswered.begin() + static_cast<ptrdiff_t>(batch.tickets.size()),
                         batch.unanswered.end());
  return batch;
}

void EndpointEncoder::Work() {
  OutboundClient client;
  absl::MutexLock lock(&mu_);
  const auto called = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || Ready() > 0; };
  const auto full = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || Ready() >= texts_max_; };
  while (true) {
    ++idle_;
    mu_.Await(absl::Condition(&called));
    mu_.AwaitWithTimeout(absl::Condition(&full), options_.linger);
    --idle_;
    if (stopping_) return;
    Taken batch;
    try {
      batch = TakeBatch();
    } catch (const std::bad_alloc&) {  // Another call may give memory back.
      const auto stops = [this] { return stopping_.load(); };
      mu_.AwaitWithTimeout(absl::Condition(&stops), kMemoryPause);
      continue;
    }
    if (batch.tickets.empty()) continue;
    if (batch.of_backfill) ++backfill_requests_;
    if (Ready() > 0) StartThread();
    mu_.Unlock();
    RunBatch(client, batch);
    mu_.Lock();
    if (batch.of_backfill) --backfill_requests_;
  }
}

EmbeddedInputs EndpointEncoder::Ask(OutboundClient& client, const Tickets& tickets) {
  EmbeddedInputs outputs;
  absl::StatusOr<std::string> key = ReadEndpointKey(endpoint_, options_.endpoints);
  if (!key.ok()) return EmbeddedInputs(tickets.size(), key.status());
  Batch batch{&client, *std::move(key)};
  AskParts(batch, tickets, &outputs);
  return outputs;
}

void EndpointEncoder::RunBatch(OutboundClient& client, Taken& batch) {
  EmbeddedInputs outputs;
  try {
    outputs = Ask(client, batch.tickets);
  } catch (const std::bad_alloc&) {
    outputs = std::move(batch.unanswered);
  } catch (...) {
    try {
      outputs.assign(batch.tickets.size(), StatusOfException());
    } catch (const std::bad_alloc&) {
      outputs = std::move(batch.unanswered);
    }
  }
  absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < batch.tickets.size(); ++i) {
    batch.tickets[i]->output = std::move(outputs[i]);
    batch.tickets[i]->done = true;
  }
}

void EndpointEncoder::AskParts(Batch& batch, std::span<const std::shared_ptr<Ticket>> tickets,
                               EmbeddedInputs* outputs) {
  // An endpoint that refuses all texts is not asked for each of them.
  if (batch.refusals >= kRefusalsMax && !batch.works) {
    outputs->resize(outputs->size() + tickets.size(),
                    FailedPrecondition(StrCat(endpoint_.Name(), " refuses too many of the texts that it is sent")));
    return;
  }
  absl::StatusOr<EmbeddedInputs> answered = AskPatiently(batch, tickets);
  if (answered.ok()) {
    batch.works = true;
    for (auto& output : *answered) outputs->push_back(std::move(output));
    return;
  }
  const bool refused = absl::IsInvalidArgument(answered.status());
  if (refused) ++batch.refusals;
  if (!refused || tickets.size() == 1) {
    outputs->resize(outputs->size() + tickets.size(), answered.status());
    return;
  }
  const size_t half = tickets.size() / 2;
  AskParts(batch, tickets.first(half), outputs);
  AskParts(batch, tickets.subspan(half), outputs);
}

bool EndpointEncoder::GivenUp(std::span<const std::shared_ptr<Ticket>> tickets) const {
  return stopping_ || std::all_of(tickets.begin(), tickets.end(), [](const auto& t) { return t->left.load(); });
}

absl::StatusOr<EmbeddedInputs> EndpointEncoder::AskPatiently(Batch& batch,
                                                             std::span<const std::shared_ptr<Ticket>> tickets) {
  std::vector<std::string> texts;
  absl::Time deadline = absl::InfinitePast();
  for (const auto& ticket : tickets) {
    texts.push_back(ticket->text);
    deadline = std::max(deadline, ticket->deadline);
  }
  const std::string body = EncodeEndpointRequest(endpoint_, texts);
  absl::Duration pause = options_.endpoints.pause;
  for (int tries = 1;; ++tries) {
    const auto entry = breaker_.Admit(absl::Now());
    if (!entry.ok()) return Annotate(entry.status(), endpoint_.Name());
    absl::Duration asked_pause;
    absl::StatusOr<EmbeddedInputs> answered = AskOnce(batch, tickets, *entry, body, deadline, &asked_pause);
    if (answered.ok() || !MayHelpToTryAgain(answered.status()) || tries >= options_.endpoints.tries) return answered;
    const absl::Duration wait = std::max(asked_pause, Jittered(pause));
    pause = std::min(2 * pause, options_.endpoints.pause_max);
    const absl::Time until = absl::Now() + wait;
    if (wait > options_.endpoints.pause_max || until >= deadline) {
      return Annotate(answered.status(), StrCat("not tried again, the pause would be ", absl::FormatDuration(wait)));
    }
    absl::MutexLock lock(&mu_);
    const auto stopped = [this] { return stopping_.load(); };
    while (absl::Now() < until) {
      mu_.AwaitWithDeadline(absl::Condition(&stopped), std::min(until, absl::Now() + kEndpointPoll));
      if (GivenUp(tickets)) return EndpointStopped();
    }
  }
}

absl::StatusOr<EmbeddedInputs> EndpointEncoder::AskOnce(Batch& batch, std::span<const std::shared_ptr<Ticket>> tickets,
                                                        EndpointBreaker::Entry entry, const std::string& body,
                                                        absl::Time deadline, absl::Duration* pause) {
  using Outcome = EndpointBreaker::Outcome;
  Outcome outcome = Outcome::kUnknown;
  const absl::Cleanup note = [&] { breaker_.Note(entry, outcome, absl::Now()); };  // also where something is thrown
  *pause = absl::ZeroDuration();
  const absl::Duration left = deadline - absl::Now();
  OutboundRequest request = MakeEndpointRequest(endpoint_, batch.key, body);
  request.answer_bytes_max = EndpointAnswerBytesMax(tickets.size(), dimension_);
  request.limit = std::min(left, endpoint_.timeout);
  request.cancelled = [&] { return GivenUp(tickets); };
  absl::StatusOr<OutboundReply> reply = batch.client->Send(request);
  if (!reply.ok()) reply = Annotate(reply.status(), endpoint_.Name());
  if (absl::IsCancelled(reply.status())) return EndpointStopped();
  if (absl::IsDeadlineExceeded(reply.status())) {  // Whether the endpoint is slow, or the call in a hurry.
    const bool in_a_hurry = left < endpoint_.timeout;
    if (in_a_hurry) return reply.status();
    outcome = Outcome::kFailed;
    return Unavailable(
        StrCat(MessageOf(reply.status()), ", ", absl::FormatDuration(endpoint_.timeout), " (timeout_s)"));
  }
  if (!reply.ok()) {
    const bool too_long = absl::IsResourceExhausted(reply.status());
    outcome = too_long ? Outcome::kWorks : Outcome::kFailed;
    return too_long ? Internal(MessageOf(reply.status())) : reply.status();
  }
  if (reply->status != 200) {
    outcome = reply->status >= 500 ? Outcome::kFailed : Outcome::kWorks;
    *pause = reply->retry_after.value_or(absl::ZeroDuration());
    const absl::Status refused = Annotate(StatusOfReply(*reply, batch.key), endpoint_.Name());
    return *pause > absl::ZeroDuration() ? WithRetryAfter(refused, *pause) : refused;
  }
  absl::StatusOr<EmbeddedInputs> answered = DecodeEndpointAnswer(reply->body, tickets.size(), dimension_);
  outcome = answered.ok() ? Outcome::kWorks : Outcome::kFailed;
  // An answer that is wrong as a whole says nothing of any text, as one that did not come.
  if (!answered.ok()) return Unavailable(StrCat(endpoint_.Name(), ": ", MessageOf(answered.status())));
  for (auto& output : *answered) {
    if (!output.ok()) output = Annotate(output.status(), endpoint_.Name());
  }
  return answered;
}

}  // namespace lightcone::server
