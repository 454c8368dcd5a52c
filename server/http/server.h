// The HTTP server beside gRPC. One thread serves every connection; handlers that may wait run on threads of their own.
// A client that sends or takes nothing holds a descriptor and little memory, and gives way when room is short.
// Threads: one thread calls Start and Stop. The server's threads call the handlers, as their routes say.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/host_names.h"
#include "server/http/http_limits.h"
#include "server/http/route_table.h"

namespace lightcone::server {

struct HttpServerOptions {
  std::string host;
  int port = 0;  // 0: any free one
  HostNames names;
  HttpLimits limits;
  RouteTable routes;
  std::string not_found;  // the answer's text where there is no route
};

class HttpServer {
 public:
  // Listens and answers. UNAVAILABLE naming the address and the system's reason.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  ~HttpServer();

  int port() const;
  // Takes no connection and no request more. Ends at once without requests, else within about a second and the time of
  // the handlers that run. Requests that wait for a thread get no answer. Idempotent.
  void Stop();

 private:
  class Io;
  explicit HttpServer(std::unique_ptr<Io> io);

  std::unique_ptr<Io> io_;
};

}  // namespace lightcone::server
