#include "server/http/server.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "httplib.h"

namespace lightcone::server {
namespace {

constexpr int kThreads = 8;
constexpr size_t kQueuedMax = 64;  // accepted connections that wait for a thread; more wait in the kernel's backlog
constexpr char kPlainText[] = "text/plain; charset=utf-8";

// The library's own pool takes any number of connections. This one lets the accepting thread wait for room, so that a
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

  // The jobs that wait are run, because each owns a socket; they see that the server has stopped and only close it.
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
  server->Get("/", [&handlers](const httplib::Request&, httplib::Response& response) {
    response.set_content(handlers.index(), kPlainText);
  });
  server->set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.status == 404) {
      response.set_content("nothing here; there are: /, /metrics, /healthz, /readyz\n", kPlainText);
    }
  });
}

}  // namespace

HttpServer::HttpServer() : server_(std::make_unique<httplib::Server>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, int port,
                                                              HttpHandlers handlers) {
  std::unique_ptr<HttpServer> self(new HttpServer);
  self->handlers_ = std::move(handlers);
  httplib::Server& server = *self->server_;
  Route(self->handlers_, &server);
  server.new_task_queue = [] { return new BoundedThreads; };
  // The library's default sets SO_REUSEPORT, with which a second server would silently share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  // One request a connection and short waits: an idle client (a second) or a slow one (the read timeout) can neither
  // occupy a thread for long nor hold up Stop.
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(5);
  server.set_write_timeout(5);
  server.set_payload_max_length(64 << 10);
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
  // stop() before the loop runs would be lost. Connections already wait in the backlog, so this is no race for clients.
  while (!server.is_running() && !self->ended_.load()) std::this_thread::yield();
  if (self->ended_.load()) return Unavailable(StrCat("the http server on '", host, ":", port, "' ended at once"));
  return self;
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace lightcone::server
