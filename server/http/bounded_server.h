// The HTTP library's server with bounds on the time and the bytes that one client can take.
//
// The library waits five seconds for each byte, keeps a head of any size, and limits a body by Content-Length alone.
// Here a client may keep its thread waiting for a few seconds in all, and for as long as its bytes come at
// kBytesPerSecondMin. A head has at most kHeadBytesMax. A body is read only if the head gave its size.
// Threads: Stop from one thread, beside the server's own.
#pragma once

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "httplib.h"

namespace lightcone::server {

constexpr size_t kBodyBytesMax = 16 << 20;  // an image that is searched by
constexpr size_t kHeadBytesMax = 64 << 10;  // request line and headers, with the cookies of a whole host

// The sockets of the requests that are read or answered now. Threads: every method is safe from any thread.
class Connections {
 public:
  // false: the server ends, and the caller only closes the socket.
  bool Add(int socket);
  void Remove(int socket);
  bool ending() const;
  // Ends requests that are being read. Answers under way have a second to reach their clients.
  void End();

 private:
  mutable absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> open_ ABSL_GUARDED_BY(mutex_);
};

class BoundedServer final : public httplib::Server {
 public:
  BoundedServer();
  // Accepts nothing more and ends every connection. The library ignores a stop before the server listens.
  void Stop();

 private:
  bool process_and_close_socket(socket_t socket) override;

  Connections connections_;
};

}  // namespace lightcone::server
