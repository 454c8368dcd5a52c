// State that the services of one server share: the engine, the lanes, and the number of busy calls, so that a drain
// knows when to end. Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "server/engine/api/engine.h"
#include "server/rpc/gate.h"
#include "server/rpc/lanes.h"
#include "server/rpc/message_rules.h"
#include "server/rpc/rpc_options.h"

namespace lightcone::server {

// A stream that a drain asks to end.
class DrainableStream {
 public:
  virtual ~DrainableStream() = default;
  // Keeps the stream alive until DrainPinned is called. False: the stream is ending, and must not be touched any more.
  // The registry's lock is held: Pin must not block.
  virtual bool Pin() = 0;
  // Stops reading, answers what was read, finishes with UNAVAILABLE and gives the pin back.
  virtual void DrainPinned() = 0;
};

class RpcCore {
 public:
  RpcCore(Engine* engine, const RpcOptions& options);

  Engine& engine() const { return *engine_; }
  const RpcOptions& options() const { return options_; }
  const Gate& gate() const { return gate_; }
  Lane& read_lane() { return read_lane_; }
  Lane& write_lane() { return write_lane_; }
  Lane& operate_lane() { return operate_lane_; }
  Lane& wait_lane() { return wait_lane_; }
  Lane& watch_lane() { return watch_lane_; }
  ParseBudget& parse_budget() { return parse_budget_; }
  // REQUIRES: a method of a service takes such requests.
  const MessageRules& RulesOf(const google::protobuf::Descriptor& request) const { return rules_.at(&request); }

  // UNAVAILABLE while draining; else the caller is busy until Leave.
  absl::Status Enter();
  void Leave();
  // UNAVAILABLE while draining; else the stream is registered until Remove. A stream is busy only between EnterWork and
  // Leave, once for each part of its work.
  absl::Status Add(DrainableStream* stream);
  void Remove(DrainableStream* stream);
  void EnterWork();

  // RESOURCE_EXHAUSTED when as many watches are open as may be; else the caller holds one until CloseWatch.
  absl::Status OpenWatch();
  void CloseWatch();
  int64_t watches() const;

  // Refuses new calls from now on, and asks streams to end.
  void BeginDrain();
  bool draining() const;
  // Waits until nothing is busy; false: something still is at `deadline`.
  bool WaitIdle(absl::Time deadline);
  int64_t busy() const;
  std::vector<LaneStats> Lanes() const;
  void StopLanes();
  absl::Time Now() const { return options_.clock(); }

  // `context` has the caller, if there is one. `request` may be null: the call names nothing.
  void Observe(const grpc::CallbackServerContext& call, const CallContext& context, std::string_view method,
               const google::protobuf::Message* request, const absl::Status& status, absl::Time started) const;
  // Reports parts of a call that goes on.
  void ObserveParts(const CallContext& context, std::string_view method, const absl::Status& error, absl::Time started,
                    uint64_t parts) const;

  // The trace of a call, or of a batch of a stream, that begins now; null: it has none. `context` gets it, and the id
  // for logs.
  std::unique_ptr<Trace> BeginTrace(const grpc::CallbackServerContext& call, std::string_view method,
                                    CallContext* context) const;
  // `request` may be null: the call names nothing.
  void EndTrace(std::unique_ptr<Trace> trace, std::string_view method, const google::protobuf::Message* request,
                const absl::Status& status, CallStage stage) const;

 private:
  void Record(std::string_view method, const absl::Status& status, absl::Time started, uint64_t parts,
              const CallSubject* subject, const TraceId& trace_id) const;

  Engine* const engine_;
  const RpcOptions options_;
  const Gate gate_;
  const RulesByRequest rules_;
  ParseBudget parse_budget_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t watches_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<DrainableStream*> streams_ ABSL_GUARDED_BY(mutex_);
  Lane read_lane_, write_lane_, operate_lane_, wait_lane_, watch_lane_;
};

// The deadline of a call, InfiniteFuture when the client set none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// CANCELLED or DEADLINE_EXCEEDED when there is no use in starting at `now`; OK otherwise.
absl::Status StillWanted(const CallContext& context, absl::Time now);

}  // namespace lightcone::server
