// The small HTTP server beside gRPC: /metrics, /healthz, /readyz, and the console with its JSON API.
// Threads: one thread calls Start and Stop. The server's own threads call the handlers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace lightcone::server {

class BoundedServer;
struct ApiRequest;
struct ApiAnswer;

struct HttpHandlers {
  std::function<std::string()> metrics;             // text exposition format
  std::function<std::string()> index;               // the page at "/" without a console, plain text
  std::function<ApiAnswer(const ApiRequest&)> api;  // /api/v1/...; empty: there is no console
  // Returns why the server is not ready ("starting", "draining"), or nothing.
  std::function<std::string()> not_ready;
};

class HttpServer {
 public:
  // Listens on host:port (port 0: any free one). UNAVAILABLE naming the address and the system's reason.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& host, int port, HttpHandlers handlers);
  ~HttpServer();

  int port() const { return port_; }
  // Ends at once without requests, else within about a second and the time of a handler. Idempotent.
  void Stop();

 private:
  HttpServer();

  HttpHandlers handlers_;
  std::unique_ptr<BoundedServer> server_;
  std::thread thread_;
  std::atomic<bool> ended_{false};  // The listening thread has ended.
  int port_ = 0;
};

}  // namespace lightcone::server
