// Who may ask the HTTP port for what: every route of a running server, and every action of the console, with every kind
// of key, token, session and client certificate.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/log.h"
#include "server/app/serve.h"
#include "server/auth/key_file.h"
#include "server/http/console_api.h"
#include "server/http/routes.h"
#include "server/rest/rest_api.h"
#include "tests/http/raw_client.h"
#include "tests/http/tls_client.h"
#include "tests/rpc/fake_engine.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tokens.h"

namespace lightcone::server {
namespace {

// What the documentation promises for a route. Not the server's own table.
struct RoutePromise {
  enum class About {
    kNothing,     // everybody may call it
    kCollection,  // the collection of its path
    kSeen,        // the collections that the caller sees
    kAll,         // every collection
  };
  std::string scope;  // "read", "write", "index", "operate" or "admin"; empty: the route is open
  About about = About::kNothing;
};

using Promises = std::map<std::string, RoutePromise>;

const std::vector<std::string> kPromisedActions = {"activate",       "rollback",   "backfill-start",
                                                   "backfill-pause", "validate",   "retire",
                                                   "take-up",        "canary-end", "job-cancel"};

constexpr char kActionRoute[] = "POST /api/v1/collections/{collection}/{action}";

void PromiseConsole(Promises* out) {
  using About = RoutePromise::About;
  const std::string collection = "GET /api/v1/collections/{collection}";
  (*out)["GET /api/v1/overview"] = {"read", About::kSeen};
  for (const char* page : {"", "/generations/{generation}", "/jobs", "/input"}) {
    (*out)[collection + page] = {"read", About::kCollection};
  }
  (*out)[collection + "/audit"] = {"operate", About::kCollection};
  (*out)["POST /api/v1/collections/{collection}/search"] = {"read", About::kCollection};
  (*out)[kActionRoute] = {"operate", About::kCollection};
  for (const char* method : {"GET", "POST", "DELETE"}) (*out)[StrCat(method, " /api/v1/session")] = {};
}

void PromiseRest(Promises* out) {
  using About = RoutePromise::About;
  const auto add = [out](const std::string& scope, const std::string& method, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      (*out)[method + " /collections/{collection}" + path] = {scope, About::kCollection};
    }
  };
  for (const char* path : {"/collections", "/telemetry", "/aliases"}) {
    (*out)[StrCat("GET ", path)] = {"read", About::kSeen};
  }
  (*out)["POST /collections/aliases"] = {"admin", About::kAll};
  add("read", "GET", {"", "/exists", "/aliases", "/points/{id}"});
  add("read", "POST",
      {"/points", "/points/scroll", "/points/count", "/points/search", "/points/search/batch", "/points/search/groups",
       "/points/query", "/points/query/batch", "/points/query/groups", "/points/recommend", "/points/recommend/batch",
       "/facet"});
  add("write", "PUT", {"/points", "/points/vectors", "/points/payload"});
  add("write", "POST",
      {"/points/delete", "/points/payload", "/points/payload/delete", "/points/payload/clear", "/points/batch"});
  add("index", "PUT", {"/index"});  // a part of "operate", and of a token's "rw"
  add("index", "DELETE", {"/index/{field_name}"});
  for (const char* method : {"PUT", "PATCH", "DELETE"}) add("admin", method, {""});
  // They say to everybody that they are not there.
  add("", "POST",
      {"/points/vectors/delete", "/points/discover", "/points/discover/batch", "/points/recommend/groups",
       "/points/search/matrix/pairs", "/points/search/matrix/offsets", "/snapshots"});
  add("", "GET", {"/snapshots", "/cluster"});
  add("", "PUT", {"/shards"});
  for (const char* route : {"GET /snapshots", "POST /snapshots", "GET /cluster"}) (*out)[route] = {};
}

const Promises& PromisedRoutes() {
  static const Promises promised = [] {
    Promises out;
    for (const char* path : {"/", "/healthz", "/livez", "/readyz"}) out[StrCat("GET ", path)] = {};
    out["GET /metrics"] = {"read", RoutePromise::About::kAll};
    PromiseConsole(&out);
    PromiseRest(&out);
    return out;
  }();
  return promised;
}

bool IsConsolePage(std::string_view route) { return route.starts_with("GET /console/"); }
bool IsOfConsole(std::string_view route) { return route.find(" /api/v1/") != std::string_view::npos; }

// The routes that a server has, "GET /metrics".
std::vector<std::string> RoutesOfServer(RestApi* rest) {
  HttpHandlers handlers;
  handlers.api = handlers.session = [](const HttpRequest&) { return HttpAnswer(); };
  RouteTable table = RoutesOf(std::move(handlers));
  rest->AddRoutes(&table);
  std::vector<std::string> routes;
  for (const Route& route : table.routes()) routes.push_back(StrCat(route.method, " ", route.pattern));
  return routes;
}

TEST(HttpPromises, EachRouteAndEachActionHasOne) {
  RestApi rest({});
  std::set<std::string> routes, promised;
  for (const std::string& route : RoutesOfServer(&rest)) {
    if (IsConsolePage(route)) continue;
    EXPECT_TRUE(routes.insert(route).second) << route << " is there twice";
  }
  for (const auto& [route, promise] : PromisedRoutes()) promised.insert(route);
  EXPECT_EQ(routes, promised) << "a route needs a promise in this test";
  std::vector<std::string> actions;
  for (const std::string& action : kPromisedActions) actions.push_back("Console/" + action);
  EXPECT_THAT(ConsoleMethods(), testing::UnorderedElementsAreArray(actions));
}

// An engine that counts what changes something.
class CountingEngine : public FakeEngine {
 public:
  CountingEngine() {
    on_get_job = [](const std::string& id) {
      JobStatus job;
      job.id = id;
      job.collection = "mine";
      return job;
    };
    on_register = [this] { return Counted(GenerationStatus{}); };
    on_rollback = [this] { return Counted(ActivateAnswer{}); };
    on_validate = [this](const ValidateCall&) { return Counted(std::string("1")); };
    on_upsert = [this](const UpsertBatch&, const CallContext&) { return Counted(WriteResult{}); };
    on_change_payload = [this](const ChangePayloadCall&) { return Counted(ChangePayloadAnswer{}); };
  }

  absl::StatusOr<ActivateAnswer> ActivateGeneration(const ActivateCall&) override { return Counted(ActivateAnswer{}); }
  absl::StatusOr<RetireAnswer> RetireGeneration(const RetireCall&) override { return Counted(RetireAnswer{}); }
  absl::StatusOr<CanaryStatus> SetCanary(const SetCanaryCall&) override { return Counted(CanaryStatus{}); }
  absl::StatusOr<JobStatus> CancelJob(const std::string&, const std::string&) override { return Counted(JobStatus{}); }
  absl::StatusOr<BackfillStatus> StartBackfill(const StartBackfillCall&) override { return Counted(BackfillStatus{}); }
  absl::StatusOr<BackfillStatus> PauseBackfill(const std::string&, const std::string&) override {
    return Counted(BackfillStatus{});
  }
  absl::StatusOr<CollectionStatus> CreateCollection(const CreateCollectionCall&) override {
    return Counted(CollectionStatus{});
  }
  absl::Status DropCollection(const std::string&, const std::string&) override { return Counted(absl::OkStatus()); }
  absl::Status SetAlias(const std::string&, const std::string&, const std::string&) override {
    return Counted(absl::OkStatus());
  }
  absl::StatusOr<CollectionStatus> UpdateCollection(const UpdateCollectionCall&) override {
    return Counted(CollectionStatus{});
  }
  absl::StatusOr<CollectionStatus> IndexPayload(const IndexPayloadCall&, const CallContext&) override {
    return Counted(CollectionStatus{});
  }
  absl::StatusOr<WriteResult> Delete(const std::string&, const std::vector<ItemId>&, Durability,
                                     const CallContext&) override {
    return Counted(WriteResult{});
  }
  absl::StatusOr<DeleteByFilterAnswer> DeleteByFilter(const DeleteByFilterCall&, const CallContext&) override {
    return Counted(DeleteByFilterAnswer{});
  }

  int changes() const { return changes_.load(); }

 private:
  template <typename Answer>
  Answer Counted(Answer answer) {
    ++changes_;
    return answer;
  }
  std::atomic<int> changes_{0};
};

// A way to ask, and what it promises to allow. The requests are about the collection "mine".
struct HttpColumn {
  enum class Reach { kAll, kMine, kOther };
  std::string name;
  std::string headers = "";      // lines that show a key, a token or a session
  std::string certificate = "";  // name in the client's certificate; empty: the port without TLS
  std::set<std::string> scopes = {};
  Reach reach = Reach::kAll;
  bool is_session = false;  // It opens the console alone.
};

// '.': the request reached its handler; 'U': 401, or 429 after too many of them; 'D': 403.
char PromisedLetter(const std::string& route, const RoutePromise& promise, const HttpColumn& column) {
  if (promise.scope.empty()) return '.';
  if (column.scopes.empty() || (column.is_session && !IsOfConsole(route))) return 'U';
  const bool operates = column.scopes.contains("operate") && promise.scope == "index";
  if (!column.scopes.contains(promise.scope) && !operates && !column.scopes.contains("admin")) return 'D';
  if (column.reach == HttpColumn::Reach::kAll || promise.about == RoutePromise::About::kSeen) return '.';
  if (promise.about == RoutePromise::About::kAll) return 'D';
  return column.reach == HttpColumn::Reach::kMine ? '.' : 'D';
}

int StatusIn(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }

// The letter of PromisedLetter; '0' when there is no answer.
char LetterOfStatus(int status) {
  if (status == 401 || status == 429) return 'U';
  return status == 403 ? 'D' : status == 0 ? '0' : '.';
}

const std::string kHttpSecret = "a secret that signs tokens, of 32 bytes and more";
const std::string kOlderHttpSecret = "the secret before it, which is valid for a while";

std::string KeyHeader(const std::string& key) { return "api-key: " + key + "\r\n"; }
std::string BearerHeader(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }

std::vector<HttpColumn> KeyColumnsOfHttp() {
  using Reach = HttpColumn::Reach;
  std::vector<HttpColumn> columns = {{.name = "no key"},
                                     {.name = "wrong key", .headers = KeyHeader("wrong")},
                                     {.name = "expired key", .headers = KeyHeader("expired-key")},
                                     {.name = "basic", .headers = "Authorization: Basic admin-key\r\n"}};
  for (const char* scope : {"read", "write", "operate", "admin"}) {
    columns.push_back({.name = scope, .headers = KeyHeader(StrCat(scope, "-key")), .scopes = {scope}});
  }
  columns.push_back({.name = "own", .headers = BearerHeader("own-key"), .scopes = {"admin"}, .reach = Reach::kMine});
  columns.push_back(
      {.name = "other", .headers = BearerHeader("other-key"), .scopes = {"admin"}, .reach = Reach::kOther});
  return columns;
}

std::vector<HttpColumn> TokenColumnsOfHttp() {
  using Reach = HttpColumn::Reach;
  const auto token = [](const std::string& claims, const std::string& secret = kHttpSecret) {
    return BearerHeader(SignedToken(claims, secret));
  };
  const std::string all = R"({"access":"m"})";
  return {
      {.name = "token of another secret", .headers = token(all, "a secret that this server was never told")},
      {.name = "token without a signature",
       .headers = BearerHeader(EncodedPart(R"({"alg":"none"})") + "." + EncodedPart(all) + ".")},
      {.name = "expired token", .headers = token(R"({"access":"m","exp":1000})")},
      {.name = "token r", .headers = token(R"({"access":"r","exp":99000000000})"), .scopes = {"read"}},
      {.name = "token m", .headers = token(R"({"access":"m","sub":"app"})"), .scopes = {"admin"}},
      {.name = "token m as api-key", .headers = KeyHeader(SignedToken(all, kHttpSecret)), .scopes = {"admin"}},
      {.name = "token m of the older secret", .headers = token(all, kOlderHttpSecret), .scopes = {"admin"}},
      {.name = "token r of the collection",
       .headers = token(R"({"access":[{"collection":"mine","access":"r"}]})"),
       .scopes = {"read"},
       .reach = Reach::kMine},
      {.name = "token rw of the collection",
       .headers = token(R"({"access":[{"collection":"other","access":"r"},{"collection":"mine","access":"rw"}]})"),
       .scopes = {"read", "write", "index"},
       .reach = Reach::kMine},
      {.name = "token prw of the collection",
       .headers = token(R"({"access":[{"collection":"mine","access":"prw"}]})"),
       .scopes = {"read", "write"},
       .reach = Reach::kMine},
      {.name = "token of another collection",
       .headers = token(R"({"access":[{"collection":"other","access":"rw"}]})"),
       .scopes = {"read", "write"},
       .reach = Reach::kOther},
  };
}

std::vector<HttpColumn> CertificateColumnsOfHttp() {
  using Reach = HttpColumn::Reach;
  std::vector<HttpColumn> columns = {
      {.name = "unknown certificate", .certificate = "stranger"},
      {.name = "expired certificate line", .certificate = "expired"},
      {.name = "certificate and wrong key", .headers = KeyHeader("wrong"), .certificate = "admin"},
      {.name = "certificate and read key",
       .headers = KeyHeader("read-key"),
       .certificate = "admin",
       .scopes = {"read"}}};
  for (const char* scope : {"read", "write", "operate", "admin"}) {
    columns.push_back({.name = StrCat("certificate ", scope), .certificate = scope, .scopes = {scope}});
  }
  columns.push_back({.name = "certificate own", .certificate = "own", .scopes = {"admin"}, .reach = Reach::kMine});
  columns.push_back({.name = "certificate other", .certificate = "other", .scopes = {"admin"}, .reach = Reach::kOther});
  return columns;
}

// The file of keys of the columns: each line once as a key, once as a certificate.
std::string KeysOfColumns() {
  const std::vector<std::tuple<std::string, auth::Scopes, std::string, absl::Time>> lines = {
      {"read", auth::kRead, "*", absl::InfiniteFuture()},
      {"write", auth::kWrite, "*", absl::InfiniteFuture()},
      {"operate", auth::kOperate, "*", absl::InfiniteFuture()},
      {"admin", auth::kAdmin, "*", absl::InfiniteFuture()},
      {"own", auth::kAdmin, "mine*", absl::InfiniteFuture()},
      {"other", auth::kAdmin, "other*", absl::InfiniteFuture()},
      {"expired", auth::kAdmin, "*", absl::FromUnixSeconds(1)}};
  std::string text;
  for (const auto& [name, scopes, pattern, expires] : lines) {
    auth::KeyEntry key;
    key.name = name;
    key.hash = auth::HashOf(name + "-key");
    key.grant = {scopes, {pattern}};
    key.expires = expires;
    text += auth::LineOf(key) + "\n";
    auth::KeyEntry certificate = key;
    certificate.name = name + ".certificate";
    certificate.hash = {};
    certificate.certificate = name + ".example";
    text += auth::LineOf(certificate) + "\n";
  }
  return text;
}

// A running server with keys and tokens, plain or asking for client certificates.
class HttpAccess : public testing::Test {
 protected:
  void SetUp() override {
    SetUpLog("off", "text");
    Write("keys", KeysOfColumns());
    Write("secrets", kHttpSecret + "\n" + kOlderHttpSecret + "\n");
    config_.listen = config_.http_listen = "127.0.0.1:0";
    config_.console_mode = "operate";
    config_.auth = {.keys_file = folder_ / "keys", .token_secrets_file = folder_ / "secrets"};
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, text).ok());
  }

  void Start() {
    auto engine = std::make_unique<CountingEngine>();
    engine_ = engine.get();
    auto server = RunningServer::Start(config_, std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void StartWithTls() {
    const Authority::Pair pair = authority_.Issue("server");
    Write("server.key", pair.key);
    Write("server.pem", pair.certificate);
    Write("ca.pem", authority_.certificate());
    config_.tls = {.certificate_file = folder_ / "server.pem",
                   .key_file = folder_ / "server.key",
                   .client_ca_file = folder_ / "ca.pem"};
    Start();
  }

  int Port() const {
    const std::string& address = server_->bound().http;
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  // The answer to "METHOD /path", about the collection "mine".
  std::string Ask(const std::string& route, const HttpColumn& column) {
    const size_t space = route.find(' ');
    const std::string method = route.substr(0, space);
    const std::string path = absl::StrReplaceAll(
        route.substr(space + 1),
        {{"{collection}", "mine"}, {"{generation}", "1"}, {"{field_name}", "colour"}, {"{id}", "7"}});
    const bool has_body = method != "GET" && method != "HEAD" && method != "DELETE";
    const std::string body = has_body ? R"({"generation":2,"expect_active":1,"job":"7"})" : "";
    const std::string head =
        StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\nX-Lightcone-Console: 1\r\n", column.headers,
               has_body ? "Content-Type: application/json\r\n" : "", "Content-Length: ", body.size(), "\r\n\r\n");
    if (column.certificate.empty()) {
      RawClient client(Port());
      client.Send(head + body);
      return client.ReadAnswer(method != "HEAD");
    }
    if (!pairs_.contains(column.certificate)) {
      pairs_[column.certificate] = authority_.Issue(column.certificate + ".example");
    }
    TlsClient client(Port(), {.authority = authority_.certificate(), .pair = pairs_[column.certificate]});
    return client.Ask(head + body);
  }

  // Asks for the route, and checks that a refused request changes nothing and an action of an allowed one something.
  void Check(const std::string& route, const RoutePromise& promise, const HttpColumn& column, bool is_action) {
    const std::string shown = StrCat(column.name, ": ", route);
    const int before = engine_->changes();
    const char expected = PromisedLetter(route, promise, column);
    const std::string answer = Ask(route, column);
    // The handlers of sessions say themselves that there is none.
    if (!route.ends_with(" /api/v1/session")) {
      EXPECT_EQ(LetterOfStatus(StatusIn(answer)), expected) << shown << answer;
    }
    if (expected != '.') {
      EXPECT_EQ(engine_->changes(), before) << shown;
    } else if (is_action) {
      EXPECT_EQ(engine_->changes(), before + 1) << shown << answer;
    }
    EXPECT_THAT(answer, testing::Not(testing::HasSubstr(kNothingHere))) << shown;
    ++cells_;
  }

  // Walks every route and every action with every column.
  void Walk(const std::vector<HttpColumn>& columns) {
    for (const HttpColumn& column : columns) {
      for (const auto& [route, promise] : PromisedRoutes()) {
        if (route == kActionRoute) continue;
        Check(route, promise, column, /*is_action=*/false);
        if (route.starts_with("GET ")) Check("HEAD" + route.substr(3), promise, column, /*is_action=*/false);
      }
      for (const std::string& action : kPromisedActions) {
        const std::string route = absl::StrReplaceAll(kActionRoute, {{"{action}", action}});
        Check(route, PromisedRoutes().at(kActionRoute), column, /*is_action=*/true);
      }
    }
    RecordProperty("cells", cells_);
  }

  // A session that the key opens.
  HttpColumn SessionOf(const std::string& name, HttpColumn column) {
    const std::string body = nlohmann::json{{"key", name + "-key"}}.dump();
    RawClient client(Port());
    client.Send(StrCat("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nX-Lightcone-Console: 1\r\n",
                       "Content-Length: ", body.size(), "\r\n\r\n", body));
    const std::string answer = client.ReadAnswer();
    const size_t at = answer.find("Set-Cookie: ");
    EXPECT_NE(at, std::string::npos) << answer;
    const std::string cookie = answer.substr(at + 12, answer.find(';', at) - at - 12);
    const auto opened = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
    column.name = "session of " + name;
    column.headers = StrCat("Cookie: ", cookie, "\r\nX-Lightcone-Csrf: ", opened.value("csrf_token", ""), "\r\n");
    column.is_session = true;
    return column;
  }

  TemporaryFolder folder_;
  ServerConfig config_;
  Authority authority_;
  std::map<std::string, Authority::Pair> pairs_;
  CountingEngine* engine_ = nullptr;
  std::unique_ptr<RunningServer> server_;
  int cells_ = 0;
};

TEST_F(HttpAccess, EveryRouteTakesTheKeysThatItsScopePromises) {
  Start();
  Walk(KeyColumnsOfHttp());
}

TEST_F(HttpAccess, EveryRouteTakesTheTokensThatItsScopePromises) {
  Start();
  Walk(TokenColumnsOfHttp());
}

TEST_F(HttpAccess, EveryRouteTakesTheCertificatesThatItsScopePromises) {
  StartWithTls();
  Walk(CertificateColumnsOfHttp());
}

TEST_F(HttpAccess, EveryRouteOfTheConsoleAndNoOtherTakesTheSessionsThatItsScopePromises) {
  Start();
  using Reach = HttpColumn::Reach;
  std::vector<HttpColumn> columns;
  for (const char* scope : {"read", "write", "operate", "admin"}) {
    columns.push_back(SessionOf(scope, {.name = "", .scopes = {scope}}));
  }
  columns.push_back(SessionOf("own", {.name = "", .scopes = {"admin"}, .reach = Reach::kMine}));
  columns.push_back(SessionOf("other", {.name = "", .scopes = {"admin"}, .reach = Reach::kOther}));
  // Closing the session would end the walk.
  for (HttpColumn& column : columns) {
    for (const auto& [route, promise] : PromisedRoutes()) {
      if (route == kActionRoute || route == "DELETE /api/v1/session") continue;
      Check(route, promise, column, /*is_action=*/false);
    }
    for (const std::string& action : kPromisedActions) {
      const std::string route = absl::StrReplaceAll(kActionRoute, {{"{action}", action}});
      Check(route, PromisedRoutes().at(kActionRoute), column, /*is_action=*/true);
    }
    // A session without its token acts on nothing.
    column.headers = column.headers.substr(0, column.headers.find("X-Lightcone-Csrf"));
    for (const std::string& action : kPromisedActions) {
      const int before = engine_->changes();
      const std::string route = absl::StrReplaceAll(kActionRoute, {{"{action}", action}});
      EXPECT_EQ(StatusIn(Ask(route, column)), 403) << column.name << " without its token: " << route;
      EXPECT_EQ(engine_->changes(), before) << route;
      ++cells_;
    }
  }
  RecordProperty("cells", cells_);
}

// Tokens on both ports of one server.
class TokenPorts : public HttpAccess {
 protected:
  void SetUp() override {
    HttpAccess::SetUp();
    config_.auth.keys_file = "";
  }

  // The letters of a listing over gRPC and of one over HTTP.
  std::string Letters(const std::string& token) {
    const Ended ended = CallByName(Channel(), "/lightcone.v1.Collections/List", "", "Bearer " + token, "authorization");
    const bool limited = ended.status.error_code() == grpc::RESOURCE_EXHAUSTED;
    const char over_grpc = ended.status.ok()                                               ? '.'
                           : ended.status.error_code() == grpc::UNAUTHENTICATED || limited ? 'U'
                                                                                           : '?';
    return {over_grpc,
            LetterOfStatus(StatusIn(Ask("GET /collections", {.name = "token", .headers = BearerHeader(token)})))};
  }
  std::shared_ptr<grpc::Channel> Channel() {
    return grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials());
  }

  // Waits until both ports answer the token with the letters.
  void Await(const std::string& token, const std::string& letters) {
    std::string met;
    for (const absl::Time deadline = absl::Now() + absl::Seconds(30); met != letters && absl::Now() < deadline;) {
      met = Letters(token);
    }
    EXPECT_EQ(met, letters);
  }
};

TEST_F(TokenPorts, ASecretIsReplacedWhileTokensOfBothAreValid) {
  const std::string claims = R"({"access":"m"})";
  const std::string before = SignedToken(claims, kOlderHttpSecret), after = SignedToken(claims, kHttpSecret);
  Write("secrets", kOlderHttpSecret + "\n");
  Start();
  EXPECT_EQ(Letters(before), "..");
  EXPECT_EQ(Letters(after), "UU");
  Write("secrets", kOlderHttpSecret + "\n" + kHttpSecret + "\n");
  Await(after, "..");
  EXPECT_EQ(Letters(before), "..");
  Write("secrets", kHttpSecret + "\n");
  Await(before, "UU");
  EXPECT_EQ(Letters(after), "..");
  Write("secrets", "short\n" + kOlderHttpSecret + "\n");
  const HttpColumn scraper = {.name = "token", .headers = BearerHeader(after)};
  const std::string failed = "lightcone_auth_reloads_total{result=\"failed\"} 1";
  std::string figures;
  for (const absl::Time deadline = absl::Now() + absl::Seconds(30); absl::Now() < deadline;) {
    figures = Ask("GET /metrics", scraper);
    if (figures.find(failed) != std::string::npos) break;
  }
  EXPECT_THAT(figures, testing::HasSubstr(failed));
  EXPECT_EQ(Letters(after) + Letters(before), "..UU") << "a file with an error leaves the secrets as they were";
}

TEST_F(TokenPorts, ATokenEndsAtItsTimeAndAServerWithoutSecretsTakesNone) {
  Start();
  const auto until = [](absl::Time time) {
    return SignedToken(StrCat(R"({"access":"m","exp":)", absl::ToUnixSeconds(time), "}"), kHttpSecret);
  };
  EXPECT_EQ(Letters(until(absl::Now() + absl::Hours(1))), "..");
  EXPECT_EQ(Letters(until(absl::Now() - absl::Seconds(2))), "UU");
  config_.auth = {.keys_file = folder_ / "keys", .token_secrets_file = ""};
  Start();
  EXPECT_EQ(Letters(until(absl::Now() + absl::Hours(1))), "UU");
  EXPECT_EQ(Letters("admin-key"), "..");
}

TEST_F(TokenPorts, ATokenIsNamedByItsSubjectInRefusalsAndInTheAuditFile) {
  config_.audit.file = folder_ / "audit.jsonl";
  Start();
  const std::string reader = SignedToken(R"({"access":"r","sub":"reporter"})", kHttpSecret);
  const Ended ended = CallByName(Channel(), "/lightcone.v1.Jobs/Cancel", "", reader);
  EXPECT_EQ(ended.status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(ended.status.error_message(), testing::HasSubstr("'token:reporter'"));
  const std::string drop = "DELETE /collections/{collection}";
  EXPECT_THAT(Ask(drop, {.name = "token", .headers = BearerHeader(reader)}), testing::HasSubstr("'token:reporter'"));
  const std::string manager = SignedToken(R"({"access":"m","sub":"deployer"})", kHttpSecret);
  EXPECT_EQ(StatusIn(Ask(drop, {.name = "token", .headers = BearerHeader(manager)})), 200);
  const std::string audit = ReadFile(config_.audit.file, 1 << 20).value_or("");
  EXPECT_THAT(audit, testing::HasSubstr("\"token:deployer\""));
  EXPECT_THAT(audit, testing::Not(testing::HasSubstr(manager)));
}

}  // namespace
}  // namespace lightcone::server
