// Embeds texts by one endpoint, in batches across concurrent calls. Requests are bounded in number, tried again where
// that may help, and not made while the endpoint is down. Backfills leave one of several requests to others.
// Threads: every method is safe from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/endpoint_manifest.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/embed/embed_role.h"
#include "server/engine/embed/endpoint_breaker.h"
#include "server/engine/services/thread_starter.h"

namespace lightcone {
class OutboundClient;
}

namespace lightcone::server {

struct EndpointEncoderOptions {
  EndpointOptions endpoints;
  int64_t queue_max = 4'096;  // texts that may wait, without those of backfills
  absl::Duration linger;      // time that a batch waits for company
};

class EndpointEncoder {
 public:
  // `dimension`: length of each vector. `starter` starts its threads and must outlive it.
  // REQUIRES: CheckEndpointAllowed.
  EndpointEncoder(EndpointManifest endpoint, int dimension, EndpointEncoderOptions options, ThreadStarter* starter);
  ~EndpointEncoder();  // REQUIRES: no call is running.
  EndpointEncoder(const EndpointEncoder&) = delete;
  EndpointEncoder& operator=(const EndpointEncoder&) = delete;

  // One a text, in order: a vector before the clip, or the text's error. INVALID_ARGUMENT: the endpoint refuses the
  // text; FAILED_PRECONDITION: it refuses the key, the model or whatever it is sent, or there is no key; UNAVAILABLE:
  // it cannot be reached, fails or is down; RESOURCE_EXHAUSTED: it, or the queue here, takes no more; INTERNAL: its
  // answer is not what was asked for. The outer status: DEADLINE_EXCEEDED and CANCELLED of the call.
  // REQUIRES: texts in UTF-8.
  absl::StatusOr<EmbeddedInputs> Embed(std::span<const std::string> texts, EmbedRole role, const CallContext& context);

  // Ends requests; the calls that wait for them fail with UNAVAILABLE, and so do all later ones.
  void Stop();

  // Most requests of backfills at once, of `concurrency` in all: one is left for others where there are several.
  static int BackfillRequestsMax(int concurrency) { return std::max(1, concurrency - 1); }

 private:
  // A text that waits; shared, because a caller may leave before it is served.
  struct Ticket {
    std::string text;               // with its prefix
    absl::Time deadline, since;     // The second: the time at which it began to wait.
    std::atomic<bool> left{false};  // The caller has gone.
    absl::StatusOr<std::vector<float>> output;
    bool done = false;
  };
  using Tickets = std::vector<std::shared_ptr<Ticket>>;
  // Texts of one request.
  struct Taken {
    Tickets tickets;
    EmbeddedInputs unanswered;  // what the texts get where there is no memory for more
    bool of_backfill = false;
  };
  // One batch, as a thread works on it.
  struct Batch {
    OutboundClient* client;
    std::string key;
    int refusals = 0;
    bool works = false;  // the endpoint has embedded texts of the batch
  };

  absl::Status EmbedPiece(std::span<const std::string> texts, EmbedRole role, const CallContext& context,
                          EmbeddedInputs* outputs);
  absl::Status Await(const Tickets& tickets, const CallContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::deque<std::shared_ptr<Ticket>>& QueueOf(EmbedRole role) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return queues_[static_cast<size_t>(role)];
  }
  // Texts that are not a backfill's.
  size_t Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return queues_[0].size() + queues_[1].size(); }
  // Texts of which the next request may be made.
  size_t Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a backfill's text has waited so long that a request of it goes before others, once.
  bool BackfillIsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The texts of the next request: queries, then documents; where there are none, or one is due, a backfill's. Where it
  // throws, nothing is taken.
  Taken TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work();
  // Throws nothing: every ticket gets an output.
  void RunBatch(OutboundClient& client, Taken& batch) ABSL_LOCKS_EXCLUDED(mu_);
  EmbeddedInputs Ask(OutboundClient& client, const Tickets& tickets);
  // Asks for the texts together, and for halves of them where the endpoint refuses one.
  void AskParts(Batch& batch, std::span<const std::shared_ptr<Ticket>> tickets, EmbeddedInputs* outputs);
  absl::StatusOr<EmbeddedInputs> AskPatiently(Batch& batch, std::span<const std::shared_ptr<Ticket>> tickets);
  // One request. `pause`: time that the endpoint asks for before the next one.
  absl::StatusOr<EmbeddedInputs> AskOnce(Batch& batch, std::span<const std::shared_ptr<Ticket>> tickets,
                                         EndpointBreaker::Entry entry, const std::string& body, absl::Time deadline,
                                         absl::Duration* pause);
  bool GivenUp(std::span<const std::shared_ptr<Ticket>> tickets) const;

  const EndpointManifest endpoint_;
  const int dimension_;
  const EndpointEncoderOptions options_;
  ThreadStarter* const starter_;
  const size_t texts_max_;  // most texts of one request
  EndpointBreaker breaker_;
  std::atomic<bool> stopping_{false};

  absl::Mutex mu_;
  std::array<std::deque<std::shared_ptr<Ticket>>, 3> queues_ ABSL_GUARDED_BY(mu_);  // by role
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  int idle_ ABSL_GUARDED_BY(mu_) = 0;               // threads without a batch
  int backfill_requests_ ABSL_GUARDED_BY(mu_) = 0;  // threads with a batch of a backfill
  bool overtook_ ABSL_GUARDED_BY(mu_) = false;      // whether the last batch was a backfill's that went before others
};

}  // namespace lightcone::server
