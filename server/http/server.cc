#include "server/http/server.h"

#include <sys/socket.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "httplib.h"
#include "server/http/assets.h"
#include "server/http/bounded_server.h"
#include "server/http/console_api.h"

namespace lightcone::server {
namespace {

constexpr int kThreads = 8;
constexpr size_t kQueuedMax = 64;  // accepted connections that wait for a thread; others wait in the kernel
constexpr char kPlainText[] = "text/plain; charset=utf-8";

// The library's pool takes any number of connections. This pool lets the accepting thread wait for room, so that a
// flood of clients costs neither memory nor file descriptors.
class BoundedThreads final : public httplib::TaskQueue {
 public:
  BoundedThreads() {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> job) override {
    absl::MutexLock lock(&mutex_);
    const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.size() < kQueuedMax; };
    mutex_.Await(absl::Condition(&has_room));
    jobs_.push_back(std::move(job));
  }

  // Runs the jobs that wait, because each owns a socket. They see that the server has stopped and only close it.
  void shutdown() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> job;
      {
        absl::MutexLock lock(&mutex_);
        const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); };
        mutex_.Await(absl::Condition(&ready));
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The console loads, runs and frames nothing from elsewhere, and sends nothing elsewhere.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void SetPageHeaders(const char* caching, httplib::Response* response) {
  response->set_header("Content-Security-Policy", kPolicy);
  response->set_header("X-Content-Type-Options", "nosniff");
  response->set_header("Referrer-Policy", "no-referrer");
  response->set_header("Cache-Control", caching);
}

const char* TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

void ServeApi(const HttpHandlers& handlers, const httplib::Request& request, httplib::Response* response) {
  ApiRequest asked;
  asked.post = request.method == "POST";
  asked.path = request.path;
  for (const auto& [key, value] : request.params) asked.query.emplace(key, value);
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    asked.headers.emplace(std::move(lower), value);
  }
  asked.body = request.body;
  ApiAnswer answer = handlers.api(asked);
  response->status = answer.status;
  SetPageHeaders("no-store", response);
  response->set_content(std::move(answer.body), answer.type.c_str());
}

void RouteConsole(const HttpHandlers& handlers, httplib::Server* server) {
  for (const Asset& asset : Assets()) {
    const bool is_index = asset.name == "index.html";
    server->Get(is_index ? "/" : ("/console/" + std::string(asset.name)).c_str(),
                [&asset](const httplib::Request&, httplib::Response& response) {
                  SetPageHeaders("no-cache", &response);
                  response.set_content(asset.bytes.data(), asset.bytes.size(), TypeOf(asset.name));
                });
  }
  const auto api = [&handlers](const httplib::Request& request, httplib::Response& response) {
    ServeApi(handlers, request, &response);
  };
  server->Get("/api/v1/.*", api);
  server->Post("/api/v1/.*", api);
}

void Route(const HttpHandlers& handlers, httplib::Server* server) {
  server->Get("/metrics", [&handlers](const httplib::Request&, httplib::Response& response) {
    response.set_content(handlers.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  });
  server->Get("/healthz",
              [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", kPlainText); });
  server->Get("/readyz", [&handlers](const httplib::Request&, httplib::Response& response) {
    const std::string reason = handlers.not_ready();
    if (!reason.empty()) response.status = 503;
    response.set_content(reason.empty() ? "ready\n" : reason + "\n", kPlainText);
  });
  if (handlers.api) {
    RouteConsole(handlers, server);
  } else {
    server->Get("/", [&handlers](const httplib::Request&, httplib::Response& response) {
      response.set_content(handlers.index(), kPlainText);
    });
  }
  server->set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.status == 404 && response.body.empty()) {
      response.set_content("nothing here; there are: /, /metrics, /healthz, /readyz\n", kPlainText);
    }
  });
}

}  // namespace

HttpServer::HttpServer() : server_(std::make_unique<BoundedServer>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, int port,
                                                              HttpHandlers handlers) {
  std::unique_ptr<HttpServer> self(new HttpServer);
  self->handlers_ = std::move(handlers);
  BoundedServer& server = *self->server_;
  Route(self->handlers_, &server);
  server.new_task_queue = [] { return new BoundedThreads; };
  // The library's default sets SO_REUSEPORT, with which a second server would silently share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_payload_max_length(kBodyBytesMax);
  errno = 0;
  self->port_ = port;
  const bool bound = port == 0 ? (self->port_ = server.bind_to_any_port(host)) > 0 : server.bind_to_port(host, port);
  if (!bound) {
    const std::string reason = errno == 0 ? "not an address of this machine" : std::strerror(errno);
    return Unavailable(StrCat("cannot listen on '", host, ":", port, "' (http): ", reason,
                              errno == EADDRINUSE ? "; is another server running?" : ""));
  }
  self->thread_ = std::thread([http = self.get()] {
    http->server_->listen_after_bind();
    http->ended_.store(true);
  });
  // The library ignores a stop() before its loop runs, so wait for that. Clients already queue in the kernel.
  while (!server.is_running() && !self->ended_.load()) std::this_thread::yield();
  if (self->ended_.load()) return Unavailable(StrCat("the http server on '", host, ":", port, "' ended at once"));
  return self;
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  server_->Stop();
  thread_.join();
}

}  // namespace lightcone::server
