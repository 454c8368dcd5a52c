// The gRPC server: services, standard health and reflection, draining.
// Threads: BeginDrain, WaitIdle, the accessors: any. Stop and destruction: one thread, once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/api/engine.h"
#include "server/rpc/lanes.h"
#include "server/rpc/rpc_options.h"

namespace lightcone::server {

enum class LaneKind { kRead, kWrite, kOperate, kWait };

// "Retrieval/Search" and all others, as CallRecord names them.
std::vector<std::string> MethodNames();

class RpcServer {
 public:
  // Listens and serves; health says SERVING. `engine` must outlive the server.
  // INVALID_ARGUMENT for an address that is none, UNAVAILABLE naming the address when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Engine* engine, const RpcOptions& options);
  ~RpcServer();

  // "127.0.0.1:7700" with the port that was really taken, or "unix:/path".
  const std::string& address() const { return address_; }

  // Health says NOT_SERVING, new calls are refused with UNAVAILABLE, streams are asked to end.
  void BeginDrain();
  // Waits until every running call has ended; false: some still run at `deadline`.
  bool WaitIdle(absl::Time deadline);
  // Cancels what still runs, closes the port, ends the threads. Idempotent.
  void Stop();

  // Runs a call of another wire on the lane, among the calls of gRPC and under the same admission: `run` is called
  // exactly once, as LaneJob::run says. UNAVAILABLE while draining. A drain waits for it.
  void Submit(LaneKind lane, absl::Time deadline, std::function<void(const absl::Status& admitted)> run);

  int64_t busy() const;
  int64_t watches() const;  // open Watch streams
  std::vector<LaneStats> Lanes() const;

 private:
  struct Parts;  // gRPC's own types stay out of this header
  explicit RpcServer(std::unique_ptr<Parts> parts);
  void SetHealth(bool serving);

  std::unique_ptr<Parts> parts_;
  std::string address_;
};

}  // namespace lightcone::server
