// Keys on the HTTP port: every route with no key, a wrong one and each scope; the console's sessions.
#include <set>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "lightcone/v1/generations.grpc.pb.h"
#include "lightcone/v1/snapshots.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "server/auth/key_file.h"
#include "server/http/routes.h"
#include "server/http/server.h"
#include "tests/http/raw_client.h"
#include "tests/rpc/fake_engine.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A line of the file of keys for the key `name`, with "-key" behind it.
std::string LineOfKey(const std::string& name, auth::Scopes scopes, std::vector<std::string> collections = {"*"},
                      absl::Time expires = absl::InfiniteFuture()) {
  auth::KeyEntry entry;
  entry.name = name;
  entry.hash = auth::HashOf(name + "-key");
  entry.grant = {scopes, std::move(collections)};
  entry.expires = expires;
  return auth::LineOf(entry) + "\n";
}

std::string AskRaw(int port, const std::string& method, const std::string& path, const std::string& headers = "",
                   const std::string& body = "") {
  RawClient client(port);
  client.Send(StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "Content-Length: ", body.size(),
                     "\r\n\r\n", body));
  return client.ReadAnswer(method != "HEAD");
}

int StatusOf(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }

constexpr std::pair<std::string_view, auth::Scopes> kScopes[] = {
    {"read", auth::kRead}, {"write", auth::kWrite}, {"operate", auth::kOperate}, {"admin", auth::kAdmin}};

// A server with every route, whose handlers say that they ran.
class HttpRoutes : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines = LineOfKey("expired", auth::kAdmin, {"*"}, absl::FromUnixSeconds(1)) +
                        LineOfKey("other", auth::kRead | auth::kWrite | auth::kOperate, {"other-*"});
    for (const auto& [name, scopes] : kScopes) lines += LineOfKey(std::string(name), scopes);
    ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", lines).ok());
    // Each look at the clock is a minute later, so that no failure is one too many.
    keys_ = auth::Keyring::Open({.keys_file = folder_ / "keys",
                                 .clock = [this] { return absl::FromUnixSeconds(60 * ++minutes_ + 1'000); }})
                .value();
    HttpServerOptions options;
    options.host = "127.0.0.1";
    options.routes = Routes();
    options.gate = HttpGate(keys_.get(), nullptr, [](const std::string& name) { return std::optional(name); });
    server_ = HttpServer::Start(std::move(options)).value();
  }

  static RouteTable Routes() {
    const auto ran = [](const HttpRequest&) { return HttpAnswer{200, kPlainText, "ran"}; };
    HttpHandlers handlers;
    handlers.metrics = [] { return std::string("figures"); };
    handlers.index = [] { return std::string("index"); };
    handlers.not_ready = [] { return std::string(); };
    handlers.api = handlers.session = ran;
    RouteTable table = RoutesOf(std::move(handlers));
    table.Add({.method = "POST",
               .pattern = "/test/body",
               .access = RouteAccess::Needs(auth::kWrite, InBody("collection")),
               .body_bytes_max = 1'000,
               .handle = ran});
    table.Add({.method = "GET",
               .pattern = "/test/query",
               .access = RouteAccess::Needs(auth::kRead, InQuery("collection")),
               .handle = ran});
    table.Add({.method = "GET",
               .pattern = "/test/all",
               .access = RouteAccess::Needs(auth::kAdmin, kAllCollections),
               .handle = ran});
    return table;
  }

  // Asks a route about the collection.
  int Ask(const Route& route, const std::string& key, const std::string& collection = "shop-1") {
    std::string path = absl::StrReplaceAll(
        route.pattern, {{"{collection}", collection}, {"{generation}", "1"}, {"{action}", "activate"}});
    EXPECT_THAT(path, Not(HasSubstr("{")));
    const CollectionParameter::Place place = route.access.collection().place;
    if (place == CollectionParameter::Place::kQuery) path += "?collection=" + collection;
    const bool body = place == CollectionParameter::Place::kBody;
    return StatusOf(AskRaw(server_->port(), route.method, path,
                           key.empty() ? "" : StrCat("Content-Type: application/json\r\napi-key: ", key, "\r\n"),
                           body ? json{{"collection", collection}}.dump() : ""));
  }

  TemporaryFolder folder_;
  std::atomic<int> minutes_{0};
  std::unique_ptr<auth::Keyring> keys_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpRoutes, EachRouteTakesTheKeysWithItsScopeAndNoOthers) {
  const RouteTable table = Routes();
  std::set<std::string> open;
  for (const Route& route : table.routes()) {
    const std::string shown = route.method + " " + route.pattern;
    if (route.access.open()) {
      open.insert(shown);
      EXPECT_EQ(Ask(route, ""), 200) << shown;
      EXPECT_EQ(Ask(route, "wrong"), 200) << shown;
      continue;
    }
    EXPECT_EQ(Ask(route, ""), 401) << shown;
    EXPECT_EQ(Ask(route, "wrong"), 401) << shown;
    EXPECT_EQ(Ask(route, "expired-key"), 401) << shown;
    for (const auto& [name, scopes] : kScopes) {
      EXPECT_EQ(Ask(route, StrCat(name, "-key")), scopes.Include(route.access.scopes()) ? 200 : 403) << shown << name;
    }
    const bool seen = route.access.collection().place == CollectionParameter::Place::kSeen;
    EXPECT_EQ(Ask(route, "other-key"), seen ? 200 : 403) << shown;
    const bool all = route.access.collection().place == CollectionParameter::Place::kAll;
    EXPECT_EQ(Ask(route, "other-key", "other-1"), all ? 403 : 200) << shown;
  }
  for (const std::string& route : open) {
    const bool expected = route == "GET /" || route == "GET /healthz" || route == "GET /livez" ||
                          route == "GET /readyz" || route.starts_with("GET /console/") ||
                          route.ends_with(" /api/v1/session");
    EXPECT_TRUE(expected) << route << " is open to everybody";
  }
}

TEST_F(HttpRoutes, AKeyComesInEitherHeaderAndARefusalSaysHow) {
  const auto scrape = [&](const std::string& headers) { return AskRaw(server_->port(), "GET", "/metrics", headers); };
  EXPECT_EQ(StatusOf(scrape("Authorization: bearer read-key\r\n")), 200);
  EXPECT_EQ(StatusOf(scrape("Api-Key: read-key\r\n")), 200);
  EXPECT_EQ(StatusOf(scrape("Authorization: Basic read-key\r\n")), 401);
  const std::string refused = scrape("api-key: secret-of-somebody\r\n");
  EXPECT_THAT(refused, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_THAT(refused, Not(HasSubstr("secret-of-somebody")));
  EXPECT_THAT(AskRaw(server_->port(), "GET", "/api/v1/overview"), HasSubstr("\"UNAUTHENTICATED\""));
}

TEST_F(HttpRoutes, ABodyIsReadOnlyForCallersWhoMayUseTheRoute) {
  RawClient client(server_->port());
  client.Send("POST /test/body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n");
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 401"));
}

TEST_F(HttpRoutes, ABodyWithoutItsCollectionIsRefusedToCallersOfSome) {
  for (const char* body : {"", "[]", "{}", R"({"collection": 1})", "{"}) {
    EXPECT_EQ(StatusOf(AskRaw(server_->port(), "POST", "/test/body", "api-key: other-key\r\n", body)), 400) << body;
  }
}

TEST_F(HttpRoutes, ARouteThatCannotNameItsCollectionDoesNotStart) {
  const auto start = [](CollectionParameter parameter) {
    HttpServerOptions options;
    options.host = "127.0.0.1";
    options.routes.Add({.method = "GET",
                        .pattern = "/a/{name}",
                        .access = RouteAccess::Needs(auth::kRead, parameter),
                        .handle = [](const HttpRequest&) { return HttpAnswer(); }});
    return HttpServer::Start(std::move(options)).status();
  };
  static_assert(!std::is_default_constructible_v<RouteAccess>, "a route without a declaration does not compile");
  EXPECT_TRUE(start(InPath("name")).ok());
  EXPECT_THAT(MessageOf(start(InPath("collection"))), HasSubstr("GET /a/{name}"));
  EXPECT_FALSE(start(InBody("collection")).ok());
}

TEST(RouteTable, PartsInBracesAreAnyTextWithoutASlash) {
  RouteTable table;
  for (const char* pattern : {"/a/{x}", "/a/{x}/b/{y}", "/a/fixed", "/files/*"}) {
    table.Add({.method = "GET", .pattern = pattern, .access = RouteAccess::Open(), .handle = {}});
  }
  EXPECT_EQ(table.Find("GET", "/a/1").parameters.at("x"), "1");
  const RouteTable::Match two = table.Find("HEAD", "/a/1/b/2");
  ASSERT_NE(two.route, nullptr);
  EXPECT_EQ(two.parameters.at("y"), "2");
  for (const char* path : {"/a", "/a/", "/a/1/", "/a/1/b", "/a/1/b/", "/a//b/2", "/files", "/files/", "a/1", ""}) {
    EXPECT_EQ(table.Find("GET", path).route, nullptr) << path;
  }
  EXPECT_NE(table.Find("GET", "/files/1/2").route, nullptr);
}

class EngineOfTwo : public FakeEngine {
 public:
  absl::StatusOr<std::vector<CollectionStatus>> ListCollections() override {
    CollectionStatus shop, other;
    shop.name = "shop-1";
    other.name = "other-1";
    return std::vector<CollectionStatus>{shop, other};
  }
  std::optional<std::string> ResolveName(const std::string& name) const override {
    if (name == "alias") return "other-1";
    if (name == "shop-1" || name == "other-1") return name;
    return std::nullopt;
  }
  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall& call) override {
    operators.push_back(call.operator_name);
    return ActivateAnswer{};
  }
  std::vector<std::string> operators;
};

class HttpKeys : public testing::Test {
 protected:
  void SetUp() override {
    SetUpLog("off", "text");
    Write(LineOfKey("shop", auth::kRead | auth::kOperate, {"shop-*"}) + LineOfKey("viewer", auth::kRead));
    Start();
  }
  void Write(const std::string& lines) { ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", lines).ok()); }
  void Start() {
    server_.reset();
    config_.listen = config_.http_listen = "127.0.0.1:0";
    config_.auth.keys_file = folder_ / "keys";
    auto engine = std::make_unique<EngineOfTwo>();
    engine_ = engine.get();
    auto server = RunningServer::Start(config_, std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& method, const std::string& path, const std::string& headers = "",
                  const std::string& body = "") {
    const std::string& address = server_->bound().http;
    return AskRaw(std::stoi(address.substr(address.rfind(':') + 1)), method, path,
                  "X-Lightcone-Console: 1\r\n" + headers, body);
  }
  static std::string BodyOf(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  struct Login {
    std::string cookie, token;  // header lines
  };
  Login LogIn(const std::string& key) {
    const std::string answer = Ask("POST", "/api/v1/session", "", json{{"key", key}}.dump());
    EXPECT_EQ(StatusOf(answer), 200) << answer;
    const size_t at = answer.find("Set-Cookie: ");
    EXPECT_NE(at, std::string::npos);
    const std::string cookie = answer.substr(at + 12, answer.find(';', at) - at - 12);
    const json body = json::parse(BodyOf(answer), nullptr, false);
    return {StrCat("Cookie: ", cookie, "\r\n"), StrCat("X-Lightcone-Csrf: ", body.value("csrf_token", ""), "\r\n")};
  }

  static constexpr char kActivate[] = R"({"generation": 2, "expect_active": 1})";
  TemporaryFolder folder_;
  ServerConfig config_;
  EngineOfTwo* engine_ = nullptr;
  std::unique_ptr<RunningServer> server_;
};

TEST_F(HttpKeys, HealthIsOpenAndMetricsAreWhereAnOptionSaysSo) {
  for (const char* path : {"/healthz", "/livez", "/readyz"}) EXPECT_EQ(StatusOf(Ask("GET", path)), 200) << path;
  EXPECT_EQ(StatusOf(Ask("GET", "/metrics")), 401);
  EXPECT_EQ(StatusOf(Ask("GET", "/metrics", "Authorization: Bearer shop-key\r\n")), 403) << "it shows all collections";
  EXPECT_EQ(StatusOf(Ask("GET", "/metrics", "Authorization: Bearer viewer-key\r\n")), 200);
  config_.http_metrics_open = true;
  Start();
  EXPECT_EQ(StatusOf(Ask("GET", "/metrics")), 200);
}

TEST_F(HttpKeys, TheConsoleShowsWhatTheKeySees) {
  const std::string headers = "api-key: shop-key\r\n";
  const json overview = json::parse(BodyOf(Ask("GET", "/api/v1/overview", headers)), nullptr, false);
  ASSERT_EQ(overview["collections"].size(), 1u);
  EXPECT_EQ(overview["collections"][0]["name"], "shop-1");
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/collections/shop-1", headers)), 200);
  const std::string foreign = Ask("GET", "/api/v1/collections/other-1", headers);
  EXPECT_EQ(StatusOf(foreign), 403);
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/collections/alias", headers)), 403);
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/collections/none-1", headers)), 403) << "as if it were there";
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/collections/shop-9", headers)), 404);
}

TEST_F(HttpKeys, ASessionActsByItsKeysScopesAndOnlyWithItsToken) {
  const Login shop = LogIn("shop-key"), viewer = LogIn("viewer-key");
  const std::string act = "/api/v1/collections/shop-1/activate";
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/collections/shop-1", shop.cookie)), 200);
  EXPECT_EQ(StatusOf(Ask("POST", act, shop.cookie, kActivate)), 403) << "no token";
  EXPECT_EQ(StatusOf(Ask("POST", act, shop.cookie + viewer.token, kActivate)), 403) << "another session's token";
  EXPECT_TRUE(engine_->operators.empty());
  EXPECT_EQ(StatusOf(Ask("POST", act, shop.cookie + shop.token, kActivate)), 200);
  EXPECT_THAT(engine_->operators, testing::ElementsAre("shop (the console)"));
  EXPECT_EQ(StatusOf(Ask("POST", act, viewer.cookie + viewer.token, kActivate)), 403) << "no scope";
  EXPECT_EQ(StatusOf(Ask("POST", "/api/v1/collections/other-1/activate", shop.cookie + shop.token, kActivate)), 403);
  EXPECT_EQ(StatusOf(Ask("GET", "/metrics", viewer.cookie)), 401) << "a cookie is for the console alone";
}

TEST_F(HttpKeys, ASearchThatWritesIsToldWhetherItsKeyMayWrite) {
  Write(LineOfKey("viewer", auth::kRead) + LineOfKey("writer", auth::kRead | auth::kWrite, {"shop-1"}));
  Start();
  std::string told;
  engine_->on_search = [&told](const SearchCall& call, const CallContext& context) {
    for (const char* const collection : {"shop-1", "other-1"}) told += context.may_write(collection) ? 'y' : 'n';
    SearchAnswer answer;
    answer.results.resize(call.queries.size());
    return answer;
  };
  for (const char* const key : {"viewer-key", "writer-key"}) {
    const std::string answer = Ask("POST", "/collections/shop-1/points/query",
                                   StrCat("Content-Type: application/json\r\napi-key: ", key, "\r\n"),
                                   R"({"query": [1, 0], "params": {"refresh_top": 5}})");
    EXPECT_EQ(StatusOf(answer), 200) << answer;
  }
  EXPECT_EQ(told, "nnyn");
}

TEST_F(HttpKeys, ASessionEndsByLogoutAndWithItsKey) {
  const Login first = LogIn("viewer-key"), second = LogIn("viewer-key");
  EXPECT_EQ(StatusOf(Ask("DELETE", "/api/v1/session", first.cookie)), 403) << "no token";
  EXPECT_THAT(Ask("DELETE", "/api/v1/session", first.cookie + first.token), HasSubstr("Max-Age=0"));
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/overview", first.cookie)), 401);
  EXPECT_EQ(StatusOf(Ask("GET", "/api/v1/session", first.cookie)), 401);
  EXPECT_THAT(Ask("GET", "/api/v1/session", second.cookie), HasSubstr("\"viewer\""));
  Write(LineOfKey("shop", auth::kRead, {"shop-*"}));
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  int status = 200;
  while (status == 200 && absl::Now() < deadline) status = StatusOf(Ask("GET", "/api/v1/overview", second.cookie));
  EXPECT_NE(status, 200) << "the key is gone";
}

TEST_F(HttpKeys, AWrongKeyOpensNoSessionAndGuessesAreSlowed) {
  std::set<int> statuses;
  for (int i = 0; i < 30; ++i) {
    const std::string answer = Ask("POST", "/api/v1/session", "", R"({"key": "guess"})");
    EXPECT_THAT(answer, Not(HasSubstr("Set-Cookie")));
    statuses.insert(StatusOf(answer));
  }
  EXPECT_THAT(statuses, testing::ElementsAre(401, 429));
  LogIn("viewer-key");
}

TEST_F(HttpKeys, CallsOfOperatorsOnBothPortsAreInTheAuditFileBeforeTheirAnswers) {
  config_.audit.file = folder_ / "audit.jsonl";
  Start();
  const auto lines = [this] {
    std::istringstream text(ReadFile(config_.audit.file, 1 << 20).value_or(""));
    std::vector<std::string> out;
    for (std::string line; std::getline(text, line);) {
      const json one = json::parse(line, nullptr, false);
      const auto at = [&](const char* key) { return one.value(key, ""); };
      EXPECT_THAT(at("peer"), StartsWith("ipv4:127.0.0.1:"));
      out.push_back(
          StrCat(at("caller"), " ", at("method"), " ", at("collection"), " ", at("code"), " ", at("request_id")));
    }
    return out;
  };
  const std::string act = "/api/v1/collections/shop-1/activate", headers = "X-Request-Id: r1\r\napi-key: ";
  const std::string console = "POST /api/v1/collections/shop-1/activate shop-1 ";
  Ask("POST", act, headers + "shop-key\r\n", kActivate);
  EXPECT_THAT(lines(), testing::ElementsAre("shop " + console + "200 r1"));
  Ask("POST", act, headers + "viewer-key\r\n", kActivate);
  Ask("POST", act, headers + "unknown-key\r\n", kActivate);
  Ask("GET", "/metrics", headers + "viewer-key\r\n");

  const auto stub =
      v1::Generations::NewStub(grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials()));
  for (const char* key : {"shop-key", "viewer-key", "unknown-key"}) {
    grpc::ClientContext context;
    context.AddMetadata("api-key", key);
    v1::ActivateRequest request;
    v1::ActivateResponse response;
    request.set_collection("shop-1");
    request.set_generation(2);
    request.set_request_id("r2");
    stub->Activate(&context, request, &response);
  }
  EXPECT_THAT(lines(), testing::ElementsAre("shop " + console + "200 r1", "viewer " + console + "403 r1",
                                            "shop Generations/Activate shop-1 OK r2",
                                            "viewer Generations/Activate shop-1 PERMISSION_DENIED r2"))
      << "calls of data and calls without a key are left out";
  Ask("DELETE", "/collections/shop-1", headers + "viewer-key\r\n");
  EXPECT_THAT(lines().back(), StartsWith("viewer DELETE /collections/")) << "REST is no way around";
  EXPECT_THAT(Ask("GET", "/metrics", "api-key: viewer-key\r\n"), HasSubstr("lightcone_audit_failures_total 0"));
  config_.audit.data = true;
  Start();
  Ask("GET", "/metrics", headers + "viewer-key\r\n");
  EXPECT_EQ(lines().back(), "viewer GET /metrics  200 r1");
}

TEST_F(HttpKeys, TheAuditFileNamesEveryCollectionThatASnapshotOrARestoreReads) {
  config_.audit.file = folder_ / "audit.jsonl";
  Write(LineOfKey("owner", auth::kAdmin));
  Start();
  const auto stub =
      v1::Snapshots::NewStub(grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials()));
  const auto last_line = [this] {
    std::istringstream text(ReadFile(config_.audit.file, 1 << 20).value_or(""));
    std::string last;
    for (std::string line; std::getline(text, line);) last = line;
    return json::parse(last, nullptr, false);
  };
  const auto restore = [&](const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("api-key", "owner-key");
    v1::RestoreCollectionRequest request;
    v1::RestoreCollectionResponse response;
    request.set_snapshot("monday");
    request.set_collection("salaries");
    request.set_name(name);
    EXPECT_TRUE(stub->RestoreCollection(&context, request, &response).ok());
    return last_line();
  };
  const json renamed = restore("shop-2"), same = restore("");
  EXPECT_EQ(renamed["collection"], "shop-2");
  EXPECT_EQ(renamed["source"], "salaries");
  EXPECT_FALSE(renamed.contains("collections"));
  EXPECT_EQ(same["collection"], "salaries");
  EXPECT_EQ(same["source"], "salaries");

  const auto create = [&](const std::vector<std::string>& collections) {
    grpc::ClientContext context;
    context.AddMetadata("api-key", "owner-key");
    v1::CreateSnapshotRequest request;
    v1::CreateSnapshotResponse response;
    for (const std::string& name : collections) request.add_collections(name);
    EXPECT_TRUE(stub->CreateSnapshot(&context, request, &response).ok());
    return last_line();
  };
  const json chosen = create({"shop-1", "other-1", "shop-1"});
  EXPECT_EQ(chosen["collections"], json::array({"other-1", "shop-1"}));
  EXPECT_FALSE(chosen.contains("source"));
  EXPECT_FALSE(create({}).contains("collections")) << "the whole server";
}

}  // namespace
}  // namespace lightcone::server
