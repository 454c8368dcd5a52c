#include "server/http/server.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "httplib.h"

namespace lightcone::server {
namespace {

constexpr int kThreads = 4;
constexpr char kPlainText[] = "text/plain; charset=utf-8";

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
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // The library's default sets SO_REUSEPORT, with which a second server would silently share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  // One request a connection and short waits: an idle client can neither occupy a thread nor hold up Stop.
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(1);
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
  self->thread_ = std::thread([&server] { server.listen_after_bind(); });
  // stop() before the loop runs would be lost. Connections already wait in the backlog, so this is no race for clients.
  while (!server.is_running()) std::this_thread::yield();
  return self;
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace lightcone::server
