// The paths of an HTTP port, what they need from callers, and who answers them. Threads: immutable once the server has
// it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_message.h"
#include "server/http/route_access.h"

namespace lightcone::server {

// Where a handler runs. Lanes do not wait for each other.
enum class HttpLane {
  kIo,       // on the thread that serves every connection: the handler must not wait for anything
  kMetrics,  // on a thread of its own, beside the console's calls
  kCalls,    // on one of a few threads; the handler may take seconds
};

struct Route {
  std::string method;  // "GET" answers HEAD, too
  // "/metrics"; "/collections/{name}/points", where the part in braces is any text but a slash, and becomes
  // HttpRequest::parameters; or "/files/*" for all paths below.
  std::string pattern;
  RouteAccess access;
  HttpLane lane = HttpLane::kCalls;
  bool takes_any_host = false;  // else the Host header must name this server
  size_t body_bytes_max = 0;    // a larger body is refused before it is read
  std::function<HttpAnswer(const HttpRequest&)> handle = {};
  // In place of `handle`, whatever the lane: called on the thread that serves every connection, and must not wait.
  // Calls `done` once, then or later, on any thread, and not after the server's Stop has returned.
  std::function<void(HttpRequest request, std::function<void(HttpAnswer)> done)> begin = {};
  // The answer to a caller who is refused, whom the request names where it is known; empty: AnswerOf of http_error.h.
  // Must not wait.
  std::function<HttpAnswer(const HttpRequest& request, const absl::Status& status)> refuse = {};
  bool is_timed = false;  // HttpRequest gets the times of the check of its caller.
};

class RouteTable {
 public:
  struct Match {
    const Route* route = nullptr;  // nullptr: the path does not have the method
    std::string allowed;           // "GET, HEAD": methods of the path; empty: there is no such path
    std::map<std::string, std::string> parameters = {};  // parts in braces
  };

  void Add(Route route) { routes_.push_back(std::move(route)); }
  // INTERNAL names a route whose collection stands in a part of the path that its pattern does not have, and one that
  // reads it from a body but takes none.
  absl::Status Check() const;
  // The first route that was added for the method and the path. The pointer lives as long as the table.
  Match Find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace lightcone::server
