#include "server/http/routes.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "server/http/assets.h"

namespace lightcone::server {
namespace {

// The console loads, runs and frames nothing from elsewhere, and sends nothing elsewhere.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void SetPageHeaders(std::string_view caching, HttpAnswer* answer) {
  answer->headers = {{"Content-Security-Policy", kPolicy},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", std::string(caching)}};
}

const char* TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

Route Get(std::string path, HttpLane lane, std::function<HttpAnswer(const HttpRequest&)> handle) {
  return {.method = "GET", .path = std::move(path), .lane = lane, .handle = std::move(handle)};
}

// Probes call a machine by any name, and the answers tell nothing.
Route Probe(std::string path, std::function<HttpAnswer(const HttpRequest&)> handle) {
  Route route = Get(std::move(path), HttpLane::kIo, std::move(handle));
  route.takes_any_host = true;
  return route;
}

void AddConsole(std::function<HttpAnswer(const HttpRequest&)> api, RouteTable* table) {
  for (const Asset& asset : Assets()) {
    const std::string path = asset.name == "index.html" ? "/" : StrCat("/console/", asset.name);
    table->Add(Get(path, HttpLane::kIo, [&asset](const HttpRequest&) {
      HttpAnswer answer{200, TypeOf(asset.name), std::string(asset.bytes)};
      SetPageHeaders("no-cache", &answer);
      return answer;
    }));
  }
  for (const char* method : {"GET", "POST"}) {
    table->Add({.method = method,
                .path = "/api/v1/*",
                .lane = HttpLane::kCalls,
                .takes_any_host = true,  // The API checks the origin, the host with it, and answers in JSON.
                .body_bytes_max = std::string_view(method) == "POST" ? kBodyBytesMax : 0,
                .handle = [api](const HttpRequest& request) {
                  HttpAnswer answer = api(request);
                  SetPageHeaders("no-store", &answer);
                  return answer;
                }});
  }
}

}  // namespace

RouteTable RoutesOf(HttpHandlers handlers, RouteTable before) {
  RouteTable table = std::move(before);
  const auto alive = [](const HttpRequest&) { return HttpAnswer{200, kPlainText, "ok\n"}; };
  table.Add(Probe("/healthz", alive));
  table.Add(Probe("/livez", alive));
  table.Add(Probe("/readyz", [not_ready = std::move(handlers.not_ready)](const HttpRequest&) {
    const std::string reason = not_ready();
    return reason.empty() ? HttpAnswer{200, kPlainText, "ready\n"} : RefusalOf(503, reason);
  }));
  table.Add(Get("/metrics", HttpLane::kMetrics, [metrics = std::move(handlers.metrics)](const HttpRequest&) {
    return HttpAnswer{200, "text/plain; version=0.0.4; charset=utf-8", metrics()};
  }));
  if (handlers.api) {
    AddConsole(std::move(handlers.api), &table);
  } else {
    table.Add(Get("/", HttpLane::kIo, [index = std::move(handlers.index)](const HttpRequest&) {
      return HttpAnswer{200, kPlainText, index()};
    }));
  }
  return table;
}

}  // namespace lightcone::server
