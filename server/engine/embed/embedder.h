// Embeds raw inputs with the encoders of generations, in batches across concurrent calls. An encoder is an endpoint
// (endpoint_encoders.h), or a file that runs in a child process (embed_worker.h). A child is started when its encoder
// is needed, kept warm, and ended when nobody needs it for a while or another encoder needs its place. Threads: every
// method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/manifest.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/embed/embed_role.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/embed/endpoint_encoders.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

class Embedder {
 public:
  explicit Embedder(const EngineOptions& options);
  ~Embedder();  // REQUIRES: no call is running.
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  // Loads an encoder file in a child of its own: whether it can be registered. Errors as Encoder::Load;
  // INVALID_ARGUMENT where loading crashes the child; UNAVAILABLE where SIGKILL, the limit of time or a lack of memory
  // ends it, and after Stop; CANCELLED; RESOURCE_EXHAUSTED while EngineOptions::encoder_trials_max others are
  // loaded.
  absl::Status Try(const std::string& path, const std::string& manifest_json, const std::function<bool()>& cancelled);

  // Vectors before the clip, or each input's own error; `field_of(i)` names input i in messages. The outer status: no
  // encoder could be loaded, RESOURCE_EXHAUSTED when the queue is full or calls have too many pixels,
  // DEADLINE_EXCEEDED, CANCELLED, UNAVAILABLE after Stop.
  absl::StatusOr<EmbeddedInputs> Embed(uint32_t collection, const GenerationRecord& generation,
                                       std::span<const RawInput* const> inputs, EmbedRole role,
                                       const std::function<std::string(size_t)>& field_of, const CallContext& context);

  // Encoders that are endpoints.
  EndpointEncoders& endpoints() { return endpoints_; }

  // Ends the encoder of a generation, or of all generations of a collection (0).
  void Forget(uint32_t collection, uint32_t generation = 0);

  // Ends every encoder. The calls that wait for one fail, and so do all later ones.
  void Stop();

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // collection and generation
  // An input that waits for its encoder; shared, because a caller may leave before it is served.
  struct Ticket {
    std::string input;  // form of raw_input.h
    absl::Status run;   // error of the whole batch
    absl::StatusOr<std::vector<float>> output;
    bool done = false;
  };
  using Tickets = std::vector<std::shared_ptr<Ticket>>;
  struct Source {
    Key key;
    Manifest manifest;
    std::string manifest_json;
    std::deque<std::shared_ptr<Ticket>> queue;
    absl::Time waiting_since;
    bool seated = false, waiting = false;
    std::atomic<bool> forgotten{false};
  };
  // A thread and at most one child, which is that of `source`.
  struct Seat {
    std::shared_ptr<Source> source;
    absl::Time used = absl::InfinitePast();
    absl::Time begun = absl::InfinitePast();  // end of the first batch of `source`
    bool busy = false;
    std::thread thread;
  };

  absl::StatusOr<EmbeddedInputs> EmbedInChild(uint32_t collection, const GenerationRecord& generation,
                                              std::span<const RawInput* const> inputs,
                                              const std::function<std::string(size_t)>& field_of,
                                              const CallContext& context);
  absl::StatusOr<std::shared_ptr<Source>> SourceOf(Key key, const std::string& manifest_json);
  // RESOURCE_EXHAUSTED: calls in flight have too many pixels together.
  absl::Status TakePixels(int64_t pixels) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Serve(const std::shared_ptr<Source>& source, const Tickets& tickets, const CallContext& context);
  EmbedWorkerOptions WorkerOptions(const std::string& path, const std::string& manifest_json, const Manifest& manifest,
                                   const std::string& output) const;
  void Work(size_t seat);
  // The source that the seat has to serve now; nullptr: none.
  std::shared_ptr<Source> NextFor(size_t seat) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitSeat(const std::shared_ptr<Source>& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeSource(Seat& seat, std::shared_ptr<Source> source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveSource(Seat& seat) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Tickets TakeBatch(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunBatch(EmbedWorker& worker, const Source& source, const Tickets& batch) ABSL_LOCKS_EXCLUDED(mu_);

  const EngineOptions options_;
  const DataFolders folders_;
  EndpointEncoders endpoints_;
  std::atomic<bool> stopping_{false};

  absl::Mutex mu_;
  std::map<Key, std::shared_ptr<Source>> sources_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Source>> waiting_ ABSL_GUARDED_BY(mu_);  // sources without a seat, oldest first
  int64_t queued_ ABSL_GUARDED_BY(mu_) = 0;                           // inputs that wait
  int64_t pixels_ ABSL_GUARDED_BY(mu_) = 0;                           // pixels of images in calls in flight
  int trials_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_trial_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<Seat> seats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::server
