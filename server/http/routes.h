// The paths of a Lightcone's HTTP port: health, metrics, and the console with its JSON API. Threads: pure functions.
#pragma once

#include <functional>
#include <string>

#include "server/http/http_message.h"
#include "server/http/route_table.h"

namespace lightcone::server {

constexpr size_t kBodyBytesMax = 16 << 20;  // an image that is searched by

struct HttpHandlers {
  std::function<std::string()> metrics;               // text exposition format; runs on a thread of its own
  std::function<std::string()> index;                 // the page at "/" without a console, plain text; must not wait
  std::function<HttpAnswer(const HttpRequest&)> api;  // /api/v1/...; empty: there is no console
  // Returns why the server is not ready ("starting", "draining"), or nothing. Must not wait.
  std::function<std::string()> not_ready;
};

// The text where there is nothing.
constexpr char kNothingHere[] =
    "nothing here; there are: /, /collections, /aliases, /metrics, /healthz, /livez, /readyz";

// `before` has routes that are looked at first.
RouteTable RoutesOf(HttpHandlers handlers, RouteTable before = {});

}  // namespace lightcone::server
