// The console's JSON API under /api/v1/: what the engine says, and what an operator may do from a browser.
// A page of another site must neither act through an operator's browser nor read: same_origin.h says what a call needs.
// With keys, a browser opens a session by a key (sessions.h), and each of its actions needs the session's token.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"
#include "server/http/history.h"
#include "server/http/host_names.h"
#include "server/http/http_message.h"
#include "server/http/sessions.h"
#include "server/metrics/metrics.h"

namespace lightcone::server {

struct ConsoleOptions {
  bool read_only = true;
  HostNames names;
  std::string version;
  auth::Keyring* keys = nullptr;  // null: no keys are asked for
  Sessions* sessions = nullptr;   // where keys are asked for
  // Observes what an operator did or tried: "Console/activate", how it ended, how long it took. May be empty. Runs on
  // any thread.
  std::function<void(std::string_view method, const absl::Status& status, absl::Duration elapsed)> observe = {};
};

// Every method that is observed.
std::vector<std::string> ConsoleMethods();

// The error as the console's JSON.
HttpAnswer ConsoleErrorOf(const absl::Status& status);

class ConsoleApi {
 public:
  // `metrics` must outlive it.
  ConsoleApi(ConsoleOptions options, const Metrics* metrics);
  ~ConsoleApi();
  ConsoleApi(const ConsoleApi&) = delete;
  ConsoleApi& operator=(const ConsoleApi&) = delete;

  // From now on this engine answers calls, and a thread takes points for the curves. With nullptr calls answer 503, and
  // no earlier call runs when this returns.
  void SetEngine(Engine* engine, std::string grpc_address);

  // Answers a request whose caller was admitted. An error is {"error": {"code", "message"}} with the HTTP status for
  // the code.
  HttpAnswer Handle(const HttpRequest& request);
  // GET /api/v1/session tells whether keys are asked for, and of a session its name and token. POST opens one by
  // {"key": KEY}. DELETE closes it. Needs no engine.
  HttpAnswer HandleSession(const HttpRequest& request);

 private:
  absl::StatusOr<HttpAnswer> Route(Engine& engine, const HttpRequest& request) ABSL_SHARED_LOCKS_REQUIRED(engine_mu_);
  absl::Status CheckOrigin(const HttpRequest& request) const;
  absl::StatusOr<HttpAnswer> OpenSession(const HttpRequest& request);
  // Whether the console only shows the collection, by its own name, to this caller.
  bool IsReadOnly(const HttpRequest& request, const std::string& collection) const;
  nlohmann::json Overview(Engine& engine, const HttpRequest& request) ABSL_SHARED_LOCKS_REQUIRED(engine_mu_);
  absl::StatusOr<nlohmann::json> CollectionPage(Engine& engine, const std::string& name, const HttpRequest& request);
  absl::StatusOr<nlohmann::json> Operate(Engine& engine, const std::string& collection, const std::string& name,
                                         const HttpRequest& request);
  CallContext Context(const HttpRequest& request) const;
  void Watch();

  const ConsoleOptions options_;
  const Metrics* const metrics_;
  History history_;
  std::atomic<bool> ending_{false};
  std::atomic<int> searches_{0};  // searches that run now

  absl::Mutex engine_mu_;  // held in shared mode by every call
  Engine* engine_ ABSL_GUARDED_BY(engine_mu_) = nullptr;
  std::string grpc_address_ ABSL_GUARDED_BY(engine_mu_);

  absl::Mutex watch_mu_;
  bool stopping_ ABSL_GUARDED_BY(watch_mu_) = false;
  std::thread watcher_;
};

}  // namespace lightcone::server
