// REST as Qdrant's clients speak it, over the engine's calls. Calls run in the lanes of gRPC's calls, under the same
// admission. Threads: every method is safe from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/trace.h"
#include "server/http/http_message.h"
#include "server/http/route_table.h"
#include "server/rest/endpoints.h"
#include "server/rest/json_body.h"
#include "server/trace/tracer.h"

namespace lightcone::server {

struct RestOptions {
  std::string version;
  size_t body_bytes_max = 32 << 20;               // largest body of a request
  int64_t parsed_bytes_max = int64_t{512} << 20;  // memory of the bodies of all calls, once parsed
  absl::Duration call_time = absl::Seconds(60);   // time for a call that sets no "?timeout="
  IndexSettings index_defaults;                   // settings of new collections
  Tracer* tracer = nullptr;                       // null: no call is traced. It outlives the room.
  // Observes each call: "Rest/SearchPoints", how it ended, how long it took, its trace or none. May be empty. Runs on
  // any thread.
  std::function<void(std::string_view method, const absl::Status& status, absl::Duration elapsed,
                     const TraceId& trace_id)>
      observe;
};

// What answers calls while the server serves.
struct RestBackend {
  Engine* engine = nullptr;
  // Calls `run` exactly once: OK on a thread of the lane, else the reason why the call is not begun, on any thread and
  // without a wait.
  std::function<void(RestLane lane, absl::Time deadline, std::function<void(const absl::Status& admitted)> run)> submit;
};

// Every method that is observed.
std::vector<std::string> RestMethods();

class RestApi {
 public:
  explicit RestApi(RestOptions options);
  RestApi(const RestApi&) = delete;
  RestApi& operator=(const RestApi&) = delete;

  // From now on calls are submitted to `backend`. Before, and after Close, they get 503.
  void Open(RestBackend backend);
  // No call is submitted any more when this returns. Those that were go on.
  void Close();

  // What "/" is to a program. Must not wait, and does not.
  HttpAnswer Title() const;
  // Adds the room's routes, which must not outlive it.
  void AddRoutes(RouteTable* table);

 private:
  using Done = std::function<void(HttpAnswer)>;
  // A call on its way through a lane.
  struct Call {
    const Endpoint& endpoint;
    HttpRequest request;
    Engine* engine;
    absl::Time began, deadline;
    TraceId trace_id;              // id of the caller, or of `trace`; empty: neither is there
    std::unique_ptr<Trace> trace;  // null: the call is not traced
    int64_t queued_ns = 0;         // time of the steady clock at which it came to the lane, where it is traced
  };

  void Begin(const Endpoint& endpoint, HttpRequest request, Done done);
  // The answer to a call that the gate refuses.
  HttpAnswer Refuse(const Endpoint& endpoint, const HttpRequest& request, const absl::Status& status);
  // The trace of a call, from the check of its caller on; null: it has none.
  std::unique_ptr<Trace> BeginTrace(const Endpoint& endpoint, const HttpRequest& request,
                                    const std::optional<TraceParent>& parent) const;
  // Null is fine.
  void EndTrace(const Endpoint& endpoint, const HttpRequest& request, std::unique_ptr<Trace> trace,
                absl::StatusCode code, CallStage stage) const;
  HttpAnswer Run(Call& call, const absl::Status& admitted);
  absl::StatusOr<std::string> Answer(const Call& call);

  const RestOptions options_;
  JsonBudget budget_;
  absl::Mutex mu_;
  RestBackend backend_ ABSL_GUARDED_BY(mu_);
};

// The envelope of a result, which is JSON text, and that of an error with its HTTP status.
HttpAnswer RestAnswer(std::string_view result, absl::Duration took);
HttpAnswer RestRefusal(const absl::Status& status, absl::Duration took);

}  // namespace lightcone::server
