// A collector on the loopback that takes OTLP/HTTP in JSON, or answers as a test says. Threads: every method is safe
// from any thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/support/loopback_server.h"

namespace lightcone::server {

class StubCollector {
 public:
  using json = nlohmann::json;
  using Answer = std::function<void(httplib::Response& response)>;

  StubCollector() {
    server_.handlers().Post("/v1/traces", [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    });
    server_.Start();
  }
  void Close() { server_.Close(); }

  std::string url() const { return StrCat("http://127.0.0.1:", server_.port(), "/v1/traces"); }
  // The answers to the next requests, whose spans do not count as taken.
  void Queue(Answer answer) {
    const std::lock_guard lock(mutex_);
    queued_.push_back(std::move(answer));
  }
  void QueueStatus(int status, const std::string& retry_after = "") {
    Queue([=](httplib::Response& response) {
      response.status = status;
      if (!retry_after.empty()) response.set_header("Retry-After", retry_after);
    });
  }
  void QueueReply(const std::string& body) {
    Queue([=](httplib::Response& response) { response.set_content(body, "application/json"); });
  }
  // Waits for so many requests, whatever they were answered.
  void AwaitRequests(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= count; });
  }
  // Waits until the spans of so many calls were taken: each has one root, which is of the kind of a server.
  void AwaitCalls(int64_t count) {
    const auto roots = [this] {
      return std::count_if(spans_.begin(), spans_.end(), [](const json& span) { return span["kind"] == 2; });
    };
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return roots() >= count; });
  }
  std::vector<json> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // The spans that were taken, in the order of their arrival.
  std::vector<json> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  void Handle(const httplib::Request& request, httplib::Response& response) {
    const json body = json::parse(request.body);
    Answer answer;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back({{"type", request.get_header_value("Content-Type")}, {"body", body}});
      if (!queued_.empty()) {
        answer = std::move(queued_.front());
        queued_.pop_front();
      } else {
        for (const json& span : body["resourceSpans"][0]["scopeSpans"][0]["spans"]) spans_.push_back(span);
      }
      changed_.notify_all();
    }
    if (answer) return answer(response);
    response.set_content("{}", "application/json");
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<json> requests_, spans_;
  std::deque<Answer> queued_;
  LoopbackServer server_;  // the last member: its handlers use the others
};

// The value of a span's attribute as text; empty: it has none.
inline std::string AttributeOf(const nlohmann::json& span, const std::string& key) {
  for (const nlohmann::json& attribute : span["attributes"]) {
    if (attribute["key"] != key) continue;
    const nlohmann::json& value = attribute["value"].front();
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  return "";
}

}  // namespace lightcone::server
