// The HTTP library's server with what it lacks: bounds on the time and the bytes that one client can take.
//
// The library waits five seconds for each byte, keeps whatever a head sends, and compares only Content-Length with its
// limit of a body. Here a client may keep its thread waiting for a few seconds in all, and for as long as its bytes
// come at kBytesPerSecondMin; a head has kHeadBytesMax; and a body is read only when its size was said before.
// Threads: Stop from one thread, beside the server's own.
#pragma once

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "httplib.h"

namespace lightcone::server {

constexpr size_t kBodyBytesMax = 16 << 20;  // an image that is searched by
constexpr size_t kHeadBytesMax = 64 << 10;  // request line and headers; browsers send the cookies of a whole host

// The sockets that requests are read from or answered on now. Threads: every method is safe from any thread.
class Connections {
 public:
  // False when the server ends: the socket is only to be closed.
  bool Add(int socket);
  void Remove(int socket);
  bool ending() const;
  // Requests that are being read end at once; answers under way have a second to reach their clients.
  void End();

 private:
  mutable absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> open_ ABSL_GUARDED_BY(mutex_);
};

class BoundedServer final : public httplib::Server {
 public:
  BoundedServer();
  // Accepts nothing more and ends every connection. REQUIRES: it listens.
  void Stop();

 private:
  bool process_and_close_socket(socket_t socket) override;

  Connections connections_;
};

}  // namespace lightcone::server
