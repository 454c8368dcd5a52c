// An HTTP server on the loopback, for stand-ins of what a test talks to. Threads: as httplib::Server.
#pragma once

#include <thread>

#include "httplib.h"

namespace lightcone {

// The last member of its owner, whose other members the handlers use.
class LoopbackServer {
 public:
  LoopbackServer() = default;
  ~LoopbackServer() { Close(); }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  // Handlers are added before Start.
  httplib::Server& handlers() { return server_; }
  // `keep_alive_seconds`: time after which a silent connection is closed. Close waits for open connections.
  void Start(time_t keep_alive_seconds = 1) {
    server_.set_keep_alive_timeout(keep_alive_seconds);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // What is stopped before it runs never ends.
  }
  void Close() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  int port() const { return port_; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace lightcone
