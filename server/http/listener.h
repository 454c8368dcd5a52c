// The socket on which the HTTP port takes connections, also while the process has no descriptor left.
// Threads: belongs to the thread that serves every connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace lightcone::server {

// Listens on host:port (port 0: any free one) and returns the socket, which does not block. UNAVAILABLE naming the
// address and the system's reason.
absl::StatusOr<int> OpenListeningSocket(const std::string& host, int port);

// The port of a listening socket.
int PortOf(int socket);

class Listener {
 public:
  struct Hooks {
    std::function<void(int socket)> take;  // gets each connection's socket, and owns it
    std::function<bool()> make_room;       // closes a connection. false: no connection can be closed now
  };

  // Owns `socket`.
  Listener(int socket, boost::asio::io_context* io, Hooks hooks);
  ~Listener() { Close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Start() { WaitForConnections(); }
  void Close();

 private:
  void WaitForConnections();
  void AcceptSome();
  // false: no descriptor can be had now.
  bool FreeDescriptor();
  void Pause();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  const Hooks hooks_;
  int reserve_ = -1;  // descriptor that is closed when the process has no other
};

}  // namespace lightcone::server
