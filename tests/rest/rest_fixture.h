// A whole server over a real store, and a client of its REST paths on loopback. Threads: belongs to one thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "server/app/serve.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {

class RestTest : public testing::Test {
 protected:
  using json = nlohmann::json;

  struct Reply {
    int status = 0;  // 0: no answer
    std::string text;
    json body;
    json result() const { return body.value("result", json()); }
    std::string error() const { return body["status"].is_object() ? body["status"].value("error", "") : std::string(); }
  };

  void SetUp() override {
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.http_listen = "127.0.0.1:0";
    config.engine.data_folder = folder_ / "data";
    config.engine.store.memory_bytes = 32 << 20;
    config.engine.live_recall.sample_share = 0;
    auto server = RunningServer::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", Port());
    client_->set_read_timeout(60);
  }

  int Port() const {
    const std::string& address = server_->bound().http;
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  Reply Send(const std::string& method, const std::string& path, const std::string& text = "",
             httplib::Headers headers = {}, const std::string& type = "application/json") {
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    request.body = text;
    if (!text.empty()) request.set_header("Content-Type", type);
    const httplib::Result result = client_->send(request);
    if (!result) return {};
    return {result->status, result->body, json::parse(result->body, nullptr, /*allow_exceptions=*/false)};
  }
  Reply Get(const std::string& path) { return Send("GET", path); }
  Reply Put(const std::string& path, const json& body) { return Send("PUT", path, body.dump()); }
  Reply Post(const std::string& path, const json& body) { return Send("POST", path, body.dump()); }

  // A collection "c" of two dimensions.
  void Create(const std::string& distance) {
    const Reply made = Put("/collections/c", {{"vectors", {{"size", 2}, {"distance", distance}}}});
    ASSERT_EQ(made.status, 200) << made.text;
    EXPECT_EQ(made.result(), json(true));
  }
  void Upsert(const json& points) {
    const Reply put = Put("/collections/c/points?wait=true", {{"points", points}});
    ASSERT_EQ(put.status, 200) << put.text;
  }
  // Ids of an array of points.
  static json IdsOf(const json& points) {
    json ids = json::array();
    for (const json& point : points) ids.push_back(point["id"]);
    return ids;
  }

  TemporaryFolder folder_;
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

}  // namespace lightcone::server
