#include "server/http/routes.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "server/http/assets.h"
#include "server/http/console_api.h"

namespace lightcone::server {
namespace {

// The console loads, runs and frames nothing from elsewhere, and sends nothing elsewhere.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr size_t kKeyBodyBytesMax = 16 << 10;  // {"key": KEY}

using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

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

Route Get(std::string pattern, RouteAccess access, HttpLane lane, HttpHandler handle) {
  return {.method = "GET", .pattern = std::move(pattern), .access = access, .lane = lane, .handle = std::move(handle)};
}

// Probes call a machine by any name, and the answers tell nothing.
Route AliveProbe(std::string pattern, HttpHandler handle) {
  Route route = Get(std::move(pattern), RouteAccess::Open(), HttpLane::kIo, std::move(handle));
  route.takes_any_host = true;
  return route;
}

// The answer at "/": browsers say that they accept a page.
HttpHandler PageOrTitle(HttpHandler page, std::function<HttpAnswer()> title) {
  if (!title) return page;
  return [page = std::move(page), title = std::move(title)](const HttpRequest& request) {
    const auto accept = request.headers.find("accept");
    const bool takes_page = accept != request.headers.end() && accept->second.find("text/html") != std::string::npos;
    return takes_page ? page(request) : title();
  };
}

struct ConsoleRoute {
  std::string_view method, pattern;
  RouteAccess access;
};

constexpr RouteAccess ConsoleNeeds(auth::Scopes scopes) {
  return RouteAccess::Needs(scopes, InPath("collection")).OrSession();
}

// The scopes are those of the same calls over gRPC (server/auth/access.cc).
constexpr ConsoleRoute kConsoleRoutes[] = {
    {"GET", "/api/v1/overview", RouteAccess::Needs(auth::kRead, kSeenCollections).OrSession()},
    {"GET", "/api/v1/collections/{collection}", ConsoleNeeds(auth::kRead)},
    {"GET", "/api/v1/collections/{collection}/generations/{generation}", ConsoleNeeds(auth::kRead)},
    {"GET", "/api/v1/collections/{collection}/audit", ConsoleNeeds(auth::kOperate)},
    {"GET", "/api/v1/collections/{collection}/jobs", ConsoleNeeds(auth::kRead)},
    {"GET", "/api/v1/collections/{collection}/input", ConsoleNeeds(auth::kRead)},
    {"POST", "/api/v1/collections/{collection}/search", ConsoleNeeds(auth::kRead)},
    {"POST", "/api/v1/collections/{collection}/{action}", ConsoleNeeds(auth::kOperate)},
};

void AddConsoleCall(std::string_view method, std::string_view pattern, RouteAccess access, const HttpHandler& handle,
                    size_t body_bytes_max, RouteTable* table) {
  table->Add({.method = std::string(method),
              .pattern = std::string(pattern),
              .access = access,
              .lane = HttpLane::kCalls,
              .takes_any_host = true,  // The API checks the origin, the host with it, and answers in JSON.
              .body_bytes_max = method == "POST" ? body_bytes_max : 0,
              .handle =
                  [handle](const HttpRequest& request) {
                    HttpAnswer answer = handle(request);
                    const auto own = std::exchange(answer.headers, {});
                    SetPageHeaders("no-store", &answer);
                    answer.headers.insert(answer.headers.end(), own.begin(), own.end());
                    return answer;
                  },
              .refuse = [](const HttpRequest&, const absl::Status& status) { return ConsoleErrorOf(status); }});
}

void AddConsole(const HttpHandlers& handlers, RouteTable* table) {
  // The files hold nothing but the program's own text.
  for (const Asset& asset : Assets()) {
    const bool first = asset.name == "index.html";
    HttpHandler page = [&asset](const HttpRequest&) {
      HttpAnswer answer{200, TypeOf(asset.name), std::string(asset.bytes)};
      SetPageHeaders("no-cache", &answer);
      return answer;
    };
    if (first) page = PageOrTitle(std::move(page), handlers.title);
    table->Add(Get(first ? "/" : StrCat("/console/", asset.name), RouteAccess::Open(), HttpLane::kIo, std::move(page)));
  }
  for (const ConsoleRoute& route : kConsoleRoutes) {
    AddConsoleCall(route.method, route.pattern, route.access, handlers.api, kBodyBytesMax, table);
  }
  // Whoever has no key yet asks here.
  for (const char* method : {"GET", "POST", "DELETE"}) {
    AddConsoleCall(method, "/api/v1/session", RouteAccess::Open(), handlers.session, kKeyBodyBytesMax, table);
  }
}

}  // namespace

RouteTable RoutesOf(HttpHandlers handlers) {
  RouteTable table;
  const auto alive = [](const HttpRequest&) { return HttpAnswer{200, kPlainText, "ok\n"}; };
  table.Add(AliveProbe("/healthz", alive));
  table.Add(AliveProbe("/livez", alive));
  table.Add(AliveProbe("/readyz", [not_ready = std::move(handlers.not_ready)](const HttpRequest&) {
    const std::string reason = not_ready();
    return reason.empty() ? HttpAnswer{200, kPlainText, "ready\n"} : RefusalOf(503, reason);
  }));
  // The figures name every collection.
  const RouteAccess scraping =
      handlers.metrics_open ? RouteAccess::Open() : RouteAccess::Needs(auth::kRead, kAllCollections);
  table.Add(Get("/metrics", scraping, HttpLane::kMetrics, [metrics = std::move(handlers.metrics)](const HttpRequest&) {
    return HttpAnswer{200, "text/plain; version=0.0.4; charset=utf-8", metrics()};
  }));
  if (handlers.api) {
    AddConsole(handlers, &table);
  } else {
    HttpHandler page = [index = std::move(handlers.index)](const HttpRequest&) {
      return HttpAnswer{200, kPlainText, index()};
    };
    page = PageOrTitle(std::move(page), std::move(handlers.title));
    table.Add(Get("/", RouteAccess::Open(), HttpLane::kIo, std::move(page)));
  }
  return table;
}

}  // namespace lightcone::server
