// Any text as what a browser sends to the console: the first byte chooses the call, the rest is its body, or the value
// of its parameters where it has no body. The engine is real and small. Every answer is JSON or a picture, and no call
// ends as an error of the server's own.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "server/http/console_api.h"
#include "server/metrics/metrics.h"
#include "tests/fuzz/small_engine.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file

constexpr int kCallsOfAnEngine = 2'000;

struct Call {
  std::string_view method, path, type;
};
constexpr Call kCalls[] = {{"POST", "/api/v1/collections/c/search", "application/json"},
                           {"POST", "/api/v1/collections/c/search", "image/png"},
                           {"POST", "/api/v1/collections/c/activate", "application/json"},
                           {"POST", "/api/v1/collections/c/rollback", "application/json"},
                           {"POST", "/api/v1/collections/c/backfill-start", "application/json"},
                           {"POST", "/api/v1/collections/c/backfill-pause", "application/json"},
                           {"POST", "/api/v1/collections/c/validate", "application/json"},
                           {"POST", "/api/v1/collections/c/retire", "application/json"},
                           {"POST", "/api/v1/collections/c/take-up", "application/json"},
                           {"POST", "/api/v1/collections/c/canary-end", "application/json"},
                           {"POST", "/api/v1/collections/c/job-cancel", "application/json"},
                           {"GET", "/api/v1/collections/c/input", ""},
                           {"GET", "/api/v1/collections/c", ""},
                           {"GET", "/api/v1/collections/c/audit", ""},
                           {"GET", "/api/v1/collections/c/jobs", ""},
                           {"GET", "/api/v1/overview", ""},
                           {"GET", "/api/v1/collections/c/generations/", ""},
                           {"GET", "/api/v1/collections/", ""},
                           {"POST", "/api/v1/session", "application/json"}};

class Console {
 public:
  Console() : api_(Options(), &metrics_) { Serve(); }
  ~Console() { api_.SetEngine(nullptr, ""); }

  HttpAnswer Handle(const HttpRequest& request) {
    if (++calls_ > kCallsOfAnEngine) {
      api_.SetEngine(nullptr, "");
      engine_.Renew();
      Serve();
    }
    return request.path == "/api/v1/session" ? api_.HandleSession(request) : api_.Handle(request);
  }

 private:
  static ConsoleOptions Options() {
    ConsoleOptions options;
    options.read_only = false;
    options.version = "1";
    return options;
  }
  void Serve() {
    calls_ = 0;
    api_.SetEngine(&engine_.engine(), "127.0.0.1:1");
  }

  Metrics metrics_{"1"};
  SmallEngine engine_;
  ConsoleApi api_;
  int calls_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 1 << 16) return 0;
  static Console console;
  const Call& call = kCalls[data[0] % std::size(kCalls)];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  HttpRequest request;
  request.method = call.method;
  request.path = call.path;
  request.headers = {
      {"host", "127.0.0.1:7701"}, {"x-lightcone-console", "1"}, {"content-type", std::string(call.type)}};
  request.peer = "ipv4:127.0.0.1:1";
  if (call.path.ends_with('/')) request.path += text;
  if (call.method == "POST") request.body = text;
  // A search has parameters besides its body: what is before the first line's end.
  const std::string first = text.substr(0, text.find('\n'));
  for (const char* name : {"k", "ef", "exact", "generation", "number", "name"}) request.query[name] = first;
  if (call.type == "application/json" && first.size() == text.size()) request.query.clear();
  const HttpAnswer answer = console.Handle(request);
  if (answer.status >= 500 && answer.status != 503 && answer.status != 501) {
    std::fprintf(stderr, "%s: %d %s\n", request.path.c_str(), answer.status, answer.body.c_str());
    std::abort();
  }
  if (answer.status < 200 || answer.status > 599) std::abort();
  if (answer.type == "application/json" && !nlohmann::json::accept(answer.body)) std::abort();
  if (answer.type != "application/json" && !answer.type.starts_with("image/")) std::abort();
  return 0;
}
