// Which calls are traced, and the thread that sends their spans to a collector of OpenTelemetry (OTLP/HTTP, JSON). A
// collector that is slow or gone costs spans, which are counted, and no call any time.
// Threads: every method is safe from any thread, except Stop and destruction.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/trace.h"

namespace lightcone {
class OutboundClient;
}

namespace lightcone::server {

struct TracerOptions {
  std::string endpoint;     // URL that spans are posted to; empty: no call is traced
  double sample_share = 1;  // share of the calls without `traceparent` that are traced, 0 .. 1
  std::string version = {};
  std::function<void(const std::string& line)> log = {};  // may be empty; called from the exporter's thread
  size_t queue_max = 2'048;                               // ended calls that wait to be sent, see End
  size_t batch_max = 512;                                 // ended calls of one request
  absl::Duration pause = absl::Seconds(1);                // longest time that an ended call waits for others
  absl::Duration request_time = absl::Seconds(10);        // limit for one request
  int tries = 4;                                          // most requests with the same spans
  absl::Duration retry_min = absl::Seconds(1);            // pause before the second try, doubled for each further one
  absl::Duration stop_time = absl::Seconds(2);            // limit for Stop
};

// How far a call came. Whoever has a valid key can have calls refused at no cost, so their traces give way to those of
// calls whose work began.
enum class CallStage { kRefused, kWorked };

// Why spans were not sent.
enum class SpanLoss { kQueueFull, kFailed, kBound };
inline constexpr std::array<std::string_view, 3> kSpanLossNames = {"queue_full", "failed", "bound"};

struct TraceFigures {
  uint64_t exported_total = 0;                                     // spans that a collector took
  std::array<uint64_t, kSpanLossNames.size()> dropped_total = {};  // spans by SpanLoss
};

class Tracer {
 public:
  // REQUIRES: CheckTraceEndpoint takes the endpoint, and sample_share is 0 .. 1.
  explicit Tracer(TracerOptions options);
  ~Tracer();  // Stop
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The trace of a call; null: it has none. A caller's `traceparent` decides by its flag, and else the share. `method`
  // must be a literal. `began_ns`: time of the steady clock at which the call began; 0: now. REQUIRES: `began_ns` is 0
  // or has passed.
  std::unique_ptr<Trace> Begin(const std::optional<TraceParent>& parent, std::string_view method, int64_t began_ns = 0);
  // Ends the root and hands the trace to the exporter, without a wait. A refused call, and one that names what is not
  // there or is not valid, finds room only while less than half of the queue is taken. Null is fine.
  void End(std::unique_ptr<Trace> trace, absl::StatusCode code, CallStage stage = CallStage::kWorked);
  TraceFigures figures() const;
  // Sends what waits, for stop_time at most, and ends the thread. Idempotent.
  void Stop();

 private:
  struct Ended {
    std::unique_ptr<Trace> trace;
    absl::StatusCode code = absl::StatusCode::kOk;
  };
  enum class Outcome { kTaken, kRefused, kTryAgain };
  // What came of a request.
  struct Reply {
    Outcome outcome = Outcome::kTryAgain;
    uint64_t rejected = 0;  // number of spans that were refused of a request that was taken
    std::optional<absl::Duration> retry_after = std::nullopt;
  };
  static constexpr int64_t kNever = INT64_MAX;

  void Run();
  // Moves the next calls into `batch`, which is empty and has room for them. False: there are no more.
  bool Take(std::vector<Ended>* batch);
  // Sends one request of spans, and again while there is hope. Says what came of them.
  TraceFigures Send(std::vector<Ended>* batch);
  // The last reply. `spans`: number of those in the request.
  Reply TrySending(const std::string& body, uint64_t spans);
  Reply TryOnce(const std::string& body);
  // Waits for the next try. True: it is the last one, for the thread ends.
  bool Pause(absl::Duration pause);
  bool MustEnd() const;
  void Log(const std::string& what);

  const TracerOptions options_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<Ended> queue_ ABSL_GUARDED_BY(mutex_);
  TraceFigures figures_ ABSL_GUARDED_BY(mutex_);
  int64_t end_ns_ ABSL_GUARDED_BY(mutex_) = kNever;  // time of the steady clock at which the thread must have ended
  // Of the exporter's thread.
  std::unique_ptr<OutboundClient> client_;
  int64_t log_next_ns_ = 0;  // time of the steady clock before which nothing is logged
  std::thread thread_;
};

}  // namespace lightcone::server
