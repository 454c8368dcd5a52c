// A whole server: engine, gRPC, HTTP and metrics, in this process.
// Threads: BeginDrain from any thread; the rest from one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/api/engine.h"
#include "server/options/config.h"

namespace lightcone::server {

// Where the server really listens: ports that were given as 0 are filled in.
struct Bound {
  std::string grpc;  // "127.0.0.1:7700" or "unix:/path"
  std::string http;  // "127.0.0.1:7701"; empty when it is off
};

class RunningServer {
 public:
  // Opens the data folder and serves. HTTP answers first (/readyz says "starting"), so that probes see a long replay.
  // Errors: those of Engine::Open; INVALID_ARGUMENT for an address or settings of new collections that make no sense;
  // UNAVAILABLE naming an address that cannot be listened on.
  // `engine`: for tests, instead of opening the data folder.
  // `before_calls`: called once the data folder is open, before anything but HTTP answers.
  static absl::StatusOr<std::unique_ptr<RunningServer>> Start(const ServerConfig& config,
                                                              std::unique_ptr<Engine> engine = nullptr,
                                                              const std::function<void()>& before_calls = {});
  ~RunningServer();  // Stop(0)

  const Bound& bound() const;
  Engine& engine() const;

  // Health NOT_SERVING, /readyz 503, new calls refused, streams asked to end. Idempotent.
  void BeginDrain();
  // BeginDrain, waits up to `limit` for running calls, cancels the rest, closes everything. True: all calls had ended.
  bool Stop(absl::Duration limit);

 private:
  struct Parts;
  explicit RunningServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The umask of processes that make a data folder: files belong to their owner alone.
inline constexpr mode_t kPrivateMask = 077;

// The version of this build, "0.1.0".
std::string_view ServerVersion();

// Serves until SIGTERM, SIGINT or SIGHUP, then drains and returns OK. A second signal ends the process at once with 128
// + its number (acknowledged durable writes are on disk). Prints "lightcone ready grpc=ADDRESS http=ADDRESS" to stdout
// when calls are taken, then calls `on_ready` (may be empty). One such call a process at a time.
absl::Status RunServer(const ServerConfig& config, const std::function<void(const Bound&)>& on_ready);

}  // namespace lightcone::server
