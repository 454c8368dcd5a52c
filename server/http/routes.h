// The paths of a Lightcone's HTTP port: health, metrics, and the console with its JSON API. Threads: pure functions.
#pragma once

#include <functional>
#include <string>

#include "server/http/http_message.h"
#include "server/http/route_table.h"

namespace lightcone::server {

constexpr size_t kBodyBytesMax = 16 << 20;  // an image that is searched by

struct HttpHandlers {
  std::function<std::string()> metrics;  // text exposition format; runs on a thread of its own
  std::function<std::string()> index;    // the page at "/" without a console, plain text; must not wait
  bool metrics_open = false;             // /metrics needs no key
  std::function<HttpAnswer()>
      title;  // "/" for a program, which accepts no page; empty: it gets the page. Must not wait.
  std::function<HttpAnswer(const HttpRequest&)> api;      // /api/v1/...; empty: there is no console
  std::function<HttpAnswer(const HttpRequest&)> session;  // /api/v1/session, with `api`
  // Returns why the server is not ready ("starting", "draining"), or nothing. Must not wait.
  std::function<std::string()> not_ready;
};

// The text where there is nothing.
constexpr char kNothingHere[] =
    "nothing here; there are: /, /collections, /aliases, /metrics, /healthz, /livez, /readyz";

// Each route says what it needs of a caller (route_access.h).
RouteTable RoutesOf(HttpHandlers handlers);

}  // namespace lightcone::server
