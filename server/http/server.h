// The HTTP server beside gRPC. One thread serves every connection; handlers that may wait run on threads of their own.
// A client that sends or takes nothing holds a descriptor and little memory, and gives way when room is short.
// Threads: one thread calls Start and Stop. The server's threads call the handlers, as their routes say.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/host_names.h"
#include "server/http/http_gate.h"
#include "server/http/http_limits.h"
#include "server/http/route_table.h"
#include "server/http/transport.h"

namespace lightcone::server {

// One request that a route's handler answered, or to which the gate said no, just before its answer is sent.
struct HttpRecord {
  const Route& route;
  const HttpRequest& request;  // with its caller; without its body where the body was not read
  int status = 200;
  absl::Duration elapsed;  // in the handler
};

struct HttpServerOptions {
  std::string host;
  int port = 0;  // 0: any free one
  HostNames names;
  HttpLimits limits;
  RouteTable routes;
  std::string not_found;                                // the answer's text where there is no route
  MakeTransport transport = &PlainTransport;            // of each connection
  HttpGate gate = {};                                   // whom routes serve
  std::function<void(const HttpRecord&)> observe = {};  // may be empty; called from any thread
};

class HttpServer {
 public:
  // Listens and answers. UNAVAILABLE naming the address and the system's reason. INTERNAL naming a route that does not
  // say where its collection is (RouteTable::Check).
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
