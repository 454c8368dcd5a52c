// The paths of an HTTP port, and who answers them. Threads: immutable once the server has it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/http_message.h"

namespace lightcone::server {

// Where a handler runs. Lanes do not wait for each other.
enum class HttpLane {
  kIo,       // on the thread that serves every connection: the handler must not wait for anything
  kMetrics,  // on a thread of its own, beside the console's calls
  kCalls,    // on one of a few threads; the handler may take seconds
};

struct Route {
  std::string method;  // "GET" answers HEAD, too
  // "/metrics", "/api/v1/*" for all paths below, or "/collections/{name}/points", where a name in braces stands for any
  // text without a slash.
  std::string path;
  HttpLane lane = HttpLane::kCalls;
  bool takes_any_host = false;  // else the Host header must name this server
  size_t body_bytes_max = 0;    // a larger body is refused before it is read
  std::function<HttpAnswer(const HttpRequest&)> handle;
  // In place of `handle`, whatever the lane: called on the thread that serves every connection, and must not wait.
  // Calls `done` once, then or later, on any thread, and not after the server's Stop has returned.
  std::function<void(HttpRequest request, std::function<void(HttpAnswer)> done)> begin;
  // Whether the route is for this request, where others of its method and path may be; empty: for every one.
  std::function<bool(const HttpRequest&)> takes;
};

// The texts of `path` where `pattern`, a Route::path, has names in braces. Nothing: the pattern does not cover the
// path.
std::optional<std::map<std::string, std::string>> PathParameters(std::string_view pattern, std::string_view path);

class RouteTable {
 public:
  struct Match {
    const Route* route = nullptr;  // nullptr: the path does not have the method
    std::string allowed;           // "GET, HEAD": methods of the path; empty: there is no such path
  };

  void Add(Route route) { routes_.push_back(std::move(route)); }
  // The first route that was added for the method and the path, and takes the request. The pointer lives as long as the
  // table.
  Match Find(const HttpRequest& request) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace lightcone::server
