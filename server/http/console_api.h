// The console's JSON API under /api/v1/: what the engine says, and what an operator may do from a browser.
//
// A page of another site must not act through an operator's browser, nor read. Every call needs the header
// X-Lightcone-Console, which only pages of the same origin may send, a Host that is an address, localhost or a name the
// operator gave (a foreign name that resolves here is refused), and, where the browser says them, an Origin and a
// Sec-Fetch-Site of this very server.
//
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"
#include "server/http/history.h"
#include "server/metrics/metrics.h"

namespace lightcone::server {

struct ApiRequest {
  bool post = false;
  std::string path;                            // "/api/v1/overview", percent-decoded
  std::map<std::string, std::string> query;    // percent-decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct ApiAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

struct ConsoleOptions {
  bool read_only = true;
  std::string host;  // a name that browsers may reach the server by, beside addresses and localhost; may be empty
  std::string version;
  // What an operator did or tried: "Console/activate", how it ended, how long it took. May be empty; any thread.
  std::function<void(std::string_view method, const absl::Status& status, absl::Duration elapsed)> observe;
};

// Every method that is observed.
std::vector<std::string> ConsoleMethods();

class ConsoleApi {
 public:
  // `metrics` must outlive it.
  ConsoleApi(ConsoleOptions options, const Metrics* metrics);
  ~ConsoleApi();
  ConsoleApi(const ConsoleApi&) = delete;
  ConsoleApi& operator=(const ConsoleApi&) = delete;

  // From now on calls are answered by this engine, whose gRPC address is shown; with nullptr by 503, and the calls that
  // ran have ended when this returns. A thread takes points for the curves meanwhile.
  void SetEngine(Engine* engine, std::string grpc_address);

  // An error is {"error": {"code", "message"}} with the HTTP status that fits the code.
  ApiAnswer Handle(const ApiRequest& request);

 private:
  absl::StatusOr<ApiAnswer> Route(Engine& engine, const ApiRequest& request);
  nlohmann::json Overview(Engine& engine);
  absl::StatusOr<nlohmann::json> CollectionPage(Engine& engine, const std::string& name);
  absl::StatusOr<nlohmann::json> Operate(Engine& engine, const std::string& collection, const std::string& action,
                                         const ApiRequest& request);
  absl::StatusOr<nlohmann::json> Act(Engine& engine, const std::string& collection, const std::string& action,
                                     const nlohmann::json& body);
  CallContext Context() const;
  void Watch();

  const ConsoleOptions options_;
  const Metrics* const metrics_;
  History history_;
  std::atomic<bool> ending_{false};
  std::atomic<int> searches_{0};  // that run now

  absl::Mutex engine_mu_;  // held in shared mode by every call
  Engine* engine_ ABSL_GUARDED_BY(engine_mu_) = nullptr;
  std::string grpc_address_ ABSL_GUARDED_BY(engine_mu_);

  absl::Mutex watch_mu_;
  bool stopping_ ABSL_GUARDED_BY(watch_mu_) = false;
  std::thread watcher_;
};

}  // namespace lightcone::server
