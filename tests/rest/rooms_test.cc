// What holds for every REST path: bodies, senders, envelopes, the table of endpoints.
#include <set>

#include "base/status.h"
#include "server/rest/endpoints.h"
#include "server/rest/json_body.h"
#include "server/rest/rest_api.h"
#include "tests/http/raw_client.h"
#include "tests/rest/rest_fixture.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(RestBody, NumbersKeepTheirDigits) {
  JsonBudget budget(1 << 20);
  const auto body = ParseJsonBody(
      R"({"a": [9007199254740993, -9223372036854775808, 18446744073709551615, 1.5, "x", null]})", &budget);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->value.dump(), R"({"a":[9007199254740993,-9223372036854775808,18446744073709551615,1.5,"x",null]})");
}

TEST(RestBody, WhatIsNoJsonIsRefused) {
  JsonBudget budget(1 << 20);
  for (const char* text : {"", "{", "{\"a\": NaN}", "{\"a\": Infinity}", "{\"a\": 1e999}", "{\"a\": \"\\ud800\"}",
                           "{\"a\": \"\xff\"}", "{\"a\": 1} x", "{'a': 1}", "{\"a\": 18446744073709551616}",
                           "{\"a\": 1, \"a\": 2}", "{\"b\": {\"a\": 1, \"c\": 1, \"a\": 1}}"}) {
    EXPECT_EQ(ParseJsonBody(text, &budget).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(MessageOf(ParseJsonBody(R"({"key": 1, "key": 2})", &budget).status()), HasSubstr("'key' twice"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(MessageOf(ParseJsonBody(deep, &budget).status()), HasSubstr("72"));
  EXPECT_TRUE(ParseJsonBody("[1, 2]", &budget).ok()) << "refused bodies give their memory back";
}

TEST(RestBody, BodiesShareTheirMemory) {
  JsonBudget budget(4'000);
  std::string many = "[0";
  for (int i = 0; i < 60; ++i) many += ",0";
  many += "]";
  auto first = ParseJsonBody(many, &budget);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ParseJsonBody(many, &budget).status().code(), absl::StatusCode::kResourceExhausted);
  { const ParsedBody done = *std::move(first); }
  EXPECT_TRUE(ParseJsonBody(many, &budget).ok());
}

TEST(RestTable, EachEndpointHasAScopeAndItsCollection) {
  std::set<std::string_view> names;
  for (const Endpoint& endpoint : Endpoints()) {
    EXPECT_TRUE(names.insert(endpoint.name).second) << endpoint.name;
    EXPECT_FALSE(endpoint.access.open()) << endpoint.name;
    const bool has = endpoint.path.find("{collection}") != std::string_view::npos;
    EXPECT_EQ(endpoint.access.collection().place == CollectionParameter::Place::kPath, has) << endpoint.name;
  }
}

using RestRoom = RestTest;

TEST_F(RestRoom, ErrorsHaveTheEnvelopeOfErrors) {
  const Reply missing = Get("/collections/none");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.error(), HasSubstr("none"));
  EXPECT_TRUE(missing.body["time"].is_number());
  EXPECT_FALSE(missing.body.contains("result"));
  EXPECT_EQ(Get("/collections?timeout=0").status, 400);
  EXPECT_EQ(Get("/collections?timeout=5").status, 200);
  EXPECT_EQ(Send("POST", "/collections/c/nothing", "{}").status, 404);
  EXPECT_EQ(Send("DELETE", "/collections/c/points").status, 405);
}

TEST_F(RestRoom, BodiesMustBeJsonByTypeAndByText) {
  Create("Dot");
  const std::string path = "/collections/c/points/count";
  EXPECT_EQ(Send("POST", path, "{}", {}, "text/plain").status, 415);
  EXPECT_EQ(Send("POST", path, "{}", {}, "application/json; charset=utf-8").status, 200);
  EXPECT_EQ(Send("POST", path, R"({"unknown": 1})").status, 200) << "as at Qdrant, unknown members are ignored";
  const Reply broken = Send("POST", path, R"({"filter": )");
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.error(), HasSubstr("Format error in JSON body"));
  EXPECT_EQ(Send("POST", path, "[]").status, 400);
  RawClient large(Port());
  ASSERT_TRUE(large.Send(StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                                "Content-Length: ", 33 << 20, "\r\n\r\n")));
  EXPECT_THAT(large.ReadAnswer(), HasSubstr(" 413 "));
}

TEST_F(RestRoom, PagesOfOtherSitesAreRefused) {
  EXPECT_EQ(Send("GET", "/collections", "", {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(Send("GET", "/collections", "", {{"Host", "evil.example"}}).status, 403);
}

TEST_F(RestRoom, CallsAreCountedAndEndWithTheServer) {
  EXPECT_EQ(Get("/collections").status, 200);
  EXPECT_THAT(Get("/metrics").text, HasSubstr("Rest/ListCollections"));
  server_->BeginDrain();
  EXPECT_EQ(Get("/collections").status, 503);
  EXPECT_EQ(Get("/healthz").status, 200);
}

}  // namespace
}  // namespace lightcone::server
