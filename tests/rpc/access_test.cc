// Who may call what: every method of the wire with every kind of key.
#include "server/auth/access.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "lightcone/v1/backfill.pb.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "lightcone/v1/snapshots.pb.h"
#include "server/auth/certificates.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/rpc/method_messages.h"
#include "tests/support/authority.h"
#include "tests/support/tokens.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;
using testing::Not;

using ScopeNames = std::set<std::string>;

// The scopes that each method needs, as the documentation promises them. Not the server's own table.
const std::map<std::string, ScopeNames>& PromisedScopes() {
  static const std::map<std::string, ScopeNames> promised = [] {
    std::map<std::string, ScopeNames> out;
    const auto add = [&out](const ScopeNames& scopes, const std::string& service, std::vector<std::string> methods) {
      for (const std::string& method : methods) out[service + "/" + method] = scopes;
    };
    add({"read"}, "Retrieval", {"Get", "Search", "Scroll", "Count", "Facet"});
    add({"write"}, "Retrieval", {"Upsert", "UpsertStream", "Delete", "ChangePayload"});
    add({"read"}, "Collections", {"List", "Get"});
    add({"operate"}, "Collections", {"Update", "Rebuild"});
    add({"index"}, "Collections", {"IndexPayload"});  // a part of "operate", and of a token's "rw"
    add({"admin"}, "Collections", {"Create", "Drop", "SetAlias", "Snapshot", "Restore"});
    add({"read"}, "Generations", {"List", "Get", "GetCanary", "ListAdapters", "ListProbes", "SampleItems"});
    add({"operate"}, "Generations",
        {"Audit", "Register", "Activate", "SetCanary", "Rollback", "PutAdapter", "DropAdapter", "FitAdapter",
         "Validate", "Retire", "PutProbes", "DropProbes"});
    add({"read"}, "Backfill", {"Status", "Watch"});
    add({"read", "write"}, "Backfill", {"Lease"});
    add({"operate"}, "Backfill", {"Start", "Pause", "Estimate"});
    add({"read"}, "Jobs", {"Get", "List", "Watch"});
    add({"operate"}, "Jobs", {"Cancel"});
    add({"read"}, "Training", {"Get", "List", "Watch"});
    add({"operate"}, "Training", {"Cancel"});
    add({"admin"}, "Training", {"Start"});
    add({"admin"}, "Snapshots",
        {"CreateSnapshot", "ListSnapshots", "DeleteSnapshot", "VerifySnapshot", "DownloadSnapshot", "UploadSnapshot",
         "RestoreCollection"});
    return out;
  }();
  return promised;
}

// '.': the call got past the gate; 'U': UNAUTHENTICATED, or the same too often; 'D': PERMISSION_DENIED; 'N': NOT_FOUND.
char LetterOf(const std::string& method, const Ended& ended) {
  int code = ended.status.error_code();
  v1::UpsertStreamResponse answer;  // the stream answers each batch
  if (code == 0 && method == "Retrieval/UpsertStream" && answer.ParseFromString(ended.answer) && answer.has_error()) {
    code = answer.error().code();
  }
  if (code == grpc::UNAUTHENTICATED || ended.status.error_message().find("too many calls") == 0) return 'U';
  return code == grpc::PERMISSION_DENIED ? 'D' : code == grpc::NOT_FOUND ? 'N' : '.';
}

class AccessTest : public KeysTest {
 protected:
  AccessTest() {
    engine_.on_get_job = [](const std::string&) {
      JobStatus job;
      job.kind = Engine::kTrainJob;
      job.collection = "mine";
      job.state = JobState::kSucceeded;
      return job;
    };
  }
  Ended Call(const std::string& method, const std::string& collection, const std::string& key) {
    return CallByName(channel_, "/lightcone.v1." + method, MessageFor(method, collection), key);
  }
};

// Methods whose request names a job, and so a collection that only the job tells.
const std::set<std::string> kJobMethods = {"Jobs/Get",     "Jobs/Watch",     "Jobs/Cancel",
                                           "Training/Get", "Training/Watch", "Training/Cancel"};
// Methods that concern every collection at once.
const std::set<std::string> kMethodsForAll = {"Snapshots/CreateSnapshot",   "Snapshots/ListSnapshots",
                                              "Snapshots/DeleteSnapshot",   "Snapshots/VerifySnapshot",
                                              "Snapshots/DownloadSnapshot", "Snapshots/UploadSnapshot"};

// A way to call the server, and what it promises to allow. The calls are about the collection "mine".
struct AccessColumn {
  enum class Reach { kAll, kMine, kOther };
  std::string name;
  std::string key = "";          // key or token; empty: none
  std::string certificate = "";  // name in the client's certificate; empty: the port without TLS
  ScopeNames scopes = {};        // empty: the caller is refused whatever it calls
  Reach reach = Reach::kAll;
};

// The letter of LetterOf that the promises give.
char PromisedLetter(const std::string& method, const AccessColumn& column) {
  if (column.scopes.empty()) return 'U';
  const ScopeNames& needed = PromisedScopes().at(method);
  ScopeNames granted = column.scopes;
  if (granted.contains("operate")) granted.insert("index");
  const bool includes = std::includes(granted.begin(), granted.end(), needed.begin(), needed.end());
  if (!includes && !granted.contains("admin")) return 'D';
  if (column.reach == AccessColumn::Reach::kAll || method == "Collections/List") return '.';
  if (kMethodsForAll.contains(method)) return 'D';
  if (column.reach == AccessColumn::Reach::kMine) return '.';
  return kJobMethods.contains(method) ? 'N' : 'D';
}

const std::string kMatrixSecret = "a secret that signs tokens, of 32 bytes and more";
const std::string kOlderMatrixSecret = "the secret before it, which is valid for a while";

std::vector<AccessColumn> KeyColumns() {
  using Reach = AccessColumn::Reach;
  std::vector<AccessColumn> columns = {
      {.name = "no key"}, {.name = "wrong key", .key = "wrong-key"}, {.name = "expired key", .key = "expired-key"}};
  for (const char* scope : {"read", "write", "operate", "admin"}) {
    columns.push_back({.name = scope, .key = std::string(scope) + "-key", .scopes = {scope}});
  }
  columns.push_back({.name = "both", .key = "both-key", .scopes = {"read", "write"}});
  columns.push_back({.name = "own", .key = "own-key", .scopes = {"admin"}, .reach = Reach::kMine});
  columns.push_back({.name = "other", .key = "other-key", .scopes = {"admin"}, .reach = Reach::kOther});
  return columns;
}

std::vector<AccessColumn> TokenColumns() {
  using Reach = AccessColumn::Reach;
  const auto token = [](const std::string& claims) { return SignedToken(claims, kMatrixSecret); };
  const std::string all = R"({"access":"m"})";
  const std::string other = R"({"access":[{"collection":"other","access":"rw"}]})";
  return {
      {.name = "token of another secret", .key = SignedToken(all, "a secret that this server was never told")},
      {.name = "token without a signature", .key = EncodedPart(R"({"alg":"none"})") + "." + EncodedPart(all) + "."},
      {.name = "token of another algorithm", .key = SignedToken(all, kMatrixSecret, R"({"alg":"none"})")},
      {.name = "expired token", .key = token(R"({"access":"m","exp":1000})")},
      {.name = "token that narrows", .key = token(R"({"access":"m","value_exists":{}})")},
      {.name = "token r", .key = token(R"({"access":"r","exp":99000000000})"), .scopes = {"read"}},
      {.name = "token m", .key = token(R"({"access":"m","sub":"app"})"), .scopes = {"admin"}},
      {.name = "token m of the older secret", .key = SignedToken(all, kOlderMatrixSecret), .scopes = {"admin"}},
      {.name = "token r of the collection",
       .key = token(R"({"access":[{"collection":"mine","access":"r"}]})"),
       .scopes = {"read"},
       .reach = Reach::kMine},
      {.name = "token rw of the collection",
       .key = token(R"({"access":[{"collection":"other","access":"r"},{"collection":"mine","access":"rw"}]})"),
       .scopes = {"read", "write", "index"},
       .reach = Reach::kMine},
      {.name = "token prw of the collection",
       .key = token(R"({"access":[{"collection":"mine","access":"prw"}]})"),
       .scopes = {"read", "write"},
       .reach = Reach::kMine},
      {.name = "token of another collection", .key = token(other), .scopes = {"read", "write"}, .reach = Reach::kOther},
  };
}

std::vector<AccessColumn> CertificateColumns() {
  using Reach = AccessColumn::Reach;
  std::vector<AccessColumn> columns = {
      {.name = "unknown certificate", .certificate = "stranger"},
      {.name = "expired certificate line", .certificate = "expired"},
      {.name = "certificate and wrong key", .key = "wrong-key", .certificate = "admin"},
      {.name = "certificate and read key", .key = "read-key", .certificate = "admin", .scopes = {"read"}}};
  for (const char* scope : {"read", "write", "operate", "admin"}) {
    columns.push_back({.name = std::string("certificate ") + scope, .certificate = scope, .scopes = {scope}});
  }
  columns.push_back({.name = "certificate own", .certificate = "own", .scopes = {"admin"}, .reach = Reach::kMine});
  columns.push_back({.name = "certificate other", .certificate = "other", .scopes = {"admin"}, .reach = Reach::kOther});
  return columns;
}

// The file of keys of the columns: each line once as a key, once as a certificate.
std::string MatrixKeys() {
  const std::vector<std::tuple<std::string, auth::Scopes, std::string, absl::Time>> lines = {
      {"read", auth::kRead, "*", absl::InfiniteFuture()},
      {"write", auth::kWrite, "*", absl::InfiniteFuture()},
      {"operate", auth::kOperate, "*", absl::InfiniteFuture()},
      {"admin", auth::kAdmin, "*", absl::InfiniteFuture()},
      {"both", auth::kRead | auth::kWrite, "*", absl::InfiniteFuture()},
      {"own", auth::kAdmin, "mine*", absl::InfiniteFuture()},
      {"other", auth::kAdmin, "other*", absl::InfiniteFuture()},
      {"expired", auth::kAdmin, "*", absl::Now() - absl::Hours(1)}};
  std::string text;
  for (const auto& [name, scopes, pattern, expires] : lines) {
    text += KeyLine(name, scopes, {pattern}, expires);
    auth::KeyEntry entry;
    entry.name = name + ".certificate";
    entry.certificate = name + ".example";
    entry.grant = {scopes, {pattern}};
    entry.expires = expires;
    text += auth::LineOf(entry) + "\n";
  }
  return text;
}

// Two ports over one engine and one set of keys: one plain, one that asks for client certificates.
class AccessMatrix : public AccessTest {
 protected:
  ~AccessMatrix() override { tls_server_.reset(); }

  void SetUp() override {
    ASSERT_TRUE(WriteFileAtomically(folder_ / "secrets", kMatrixSecret + "\n" + kOlderMatrixSecret + "\n").ok());
    secrets_file_ = folder_ / "secrets";
    Serve(MatrixKeys());
    const Authority::Pair pair = authority_.Issue("server");
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.key", pair.key).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "server.pem", pair.certificate).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "ca.pem", authority_.certificate()).ok());
    auto certificates = auth::Certificates::Open({.certificate_file = folder_ / "server.pem",
                                                  .key_file = folder_ / "server.key",
                                                  .client_ca_file = folder_ / "ca.pem"});
    ASSERT_TRUE(certificates.ok()) << certificates.status();
    certificates_ = *std::move(certificates);
    RpcOptions options;
    options.keys = keys_.get();
    options.certificates = certificates_.get();
    auto server = RpcServer::Start(&engine_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    tls_server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> ChannelOf(const AccessColumn& column) const {
    if (column.certificate.empty()) return channel_;
    const Authority::Pair pair = authority_.Issue(column.certificate + ".example");
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(tls_server_->address(),
                                     grpc::SslCredentials({authority_.certificate(), pair.key, pair.certificate}),
                                     arguments);
  }

  // Walks every method with every column.
  void Walk(const std::vector<AccessColumn>& columns) {
    for (const AccessColumn& column : columns) {
      const std::shared_ptr<grpc::Channel> channel = ChannelOf(column);
      std::string expected, actual;
      for (const std::string& method : MethodNames()) {
        ASSERT_TRUE(PromisedScopes().contains(method)) << method << " needs a row in the test and in the server";
        const Ended ended = CallByName(channel, "/lightcone.v1." + method, MessageFor(method, "mine"), column.key);
        expected += method + " " + PromisedLetter(method, column) + "\n";
        actual += method + " " + LetterOf(method, ended) + "\n";
        EXPECT_NE(ended.status.error_code(), grpc::UNAVAILABLE) << column.name << " " << ended.status.error_message();
      }
      EXPECT_EQ(actual, expected) << column.name;
    }
    EXPECT_EQ(PromisedScopes().size(), MethodNames().size());
  }

  Authority authority_;
  std::unique_ptr<auth::Certificates> certificates_;
  std::unique_ptr<RpcServer> tls_server_;
};

TEST_F(AccessMatrix, EveryMethodTakesTheKeysThatItsScopesPromise) { Walk(KeyColumns()); }

TEST_F(AccessMatrix, EveryMethodTakesTheTokensThatItsScopesPromise) { Walk(TokenColumns()); }

TEST_F(AccessMatrix, EveryMethodTakesTheCertificatesThatItsScopesPromise) { Walk(CertificateColumns()); }

TEST_F(AccessTest, ASearchThatWritesIsToldWhetherItsKeyMayWrite) {
  Serve(KeyLine("read", auth::kRead) + KeyLine("both", auth::kRead | auth::kWrite, {"mine", "theirs"}) +
        KeyLine("all", auth::kAdmin));
  std::string told;
  engine_.on_search = [&told](const SearchCall&, const CallContext& context) {
    for (const char* const collection : {"mine", "other"}) {
      told += !context.may_write ? 'a' : context.may_write(collection) ? 'y' : 'n';
    }
    return SearchAnswer{};
  };
  for (const char* const key : {"read-key", "both-key", "all-key"}) {
    EXPECT_TRUE(Call("Retrieval/Search", "mine", key).status.ok()) << key;
  }
  EXPECT_EQ(told, "nnynaa");
}

TEST_F(AccessTest, HealthAndReflectionAreOpen) {
  Serve(KeyLine("read", auth::kRead));
  EXPECT_TRUE(CallByName(channel_, "/grpc.health.v1.Health/Check", "", "").status.ok());
  const std::string list_services = "\x3a";
  EXPECT_TRUE(CallByName(channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                         list_services + std::string(1, '\0'), "")
                  .status.ok());
  for (const auth::Access& access : auth::AccessTable()) {
    EXPECT_EQ(access.needed == auth::kNoScope, access.method.starts_with("grpc.")) << access.method;
  }
}

TEST_F(AccessTest, AKeyTravelsAsApiKeyOrAsBearer) {
  Serve(KeyLine("read", auth::kRead));
  const std::string path = "/lightcone.v1.Collections/List";
  EXPECT_TRUE(CallByName(channel_, path, "", "read-key", "api-key").status.ok());
  EXPECT_TRUE(CallByName(channel_, path, "", "Bearer read-key", "authorization").status.ok());
  EXPECT_TRUE(CallByName(channel_, path, "", "bearer read-key", "authorization").status.ok());
  EXPECT_EQ(CallByName(channel_, path, "", "Basic read-key", "authorization").status.error_code(),
            grpc::UNAUTHENTICATED);
}

// The collections "mine-1" and "theirs", each with an alias of its own, and an alias of "theirs" that is named as mine.
std::optional<std::string> ResolveAliases(const std::string& name) {
  if (name == "mine-live") return "mine-1";
  if (name == "theirs-live" || name == "mine-trap" || name == "theirs") return "theirs";
  if (name == "mine-1") return name;
  return std::nullopt;
}

TEST_F(AccessTest, ForeignCollectionsLookAlikeWhetherTheyExistOrNot) {
  engine_.on_resolve = &ResolveAliases;
  Serve(KeyLine("mine", auth::kAdmin, {"mine-*"}));
  const auto get = [&](const std::string& name) { return Call("Collections/Get", name, "mine-key").status; };
  EXPECT_TRUE(get("mine-1").ok());
  EXPECT_TRUE(get("mine-live").ok());
  EXPECT_EQ(get("theirs").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(absl::StrReplaceAll(get("theirs").error_message(), {{"theirs", "absent"}}), get("absent").error_message());
  EXPECT_EQ(get("theirs-live").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(get("mine-trap").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(get("mine-2").error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(get("mine-2").error_message(), Not(HasSubstr("theirs")));
  // A new name must be allowed itself, and an alias of others is not taken from them.
  EXPECT_EQ(Call("Collections/Create", "theirs-2", "mine-key").status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Call("Collections/SetAlias", "mine-trap", "mine-key").status.error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(AccessTest, ARestoreNeedsThePermissionForItsSourceAndForItsNewName) {
  engine_.on_resolve = &ResolveAliases;
  Serve(KeyLine("mine", auth::kAdmin, {"mine-*"}));
  const auto restore = [&](const std::string& source, const std::string& name) {
    v1::RestoreCollectionRequest request;
    request.set_snapshot("monday");
    request.set_collection(source);
    request.set_name(name);
    const std::string path = "/lightcone.v1.Snapshots/RestoreCollection";
    return CallByName(channel_, path, request.SerializeAsString(), "mine-key").status.error_code();
  };
  EXPECT_EQ(restore("mine-1", "mine-2"), grpc::OK);
  EXPECT_EQ(restore("mine-1", ""), grpc::OK);
  EXPECT_EQ(restore("theirs", "mine-2"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(restore("mine-1", "theirs"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(restore("theirs", ""), grpc::PERMISSION_DENIED);
  // An alias of others is not taken from them, and a source is a name in the snapshot, no alias of today.
  EXPECT_EQ(restore("mine-1", "mine-trap"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(restore("mine-trap", ""), grpc::PERMISSION_DENIED);
  EXPECT_EQ(restore("mine-trap", "mine-2"), grpc::OK);
}

TEST_F(AccessTest, ListsLeaveOutWhatTheCallerDoesNotSee) {
  for (const char* name : {"mine-1", "theirs", "mine-2"}) engine_.collections.emplace_back().name = name;
  Serve(KeyLine("mine", auth::kRead, {"mine-*"}));
  const Ended ended = Call("Collections/List", "", "mine-key");
  ASSERT_TRUE(ended.status.ok());
  v1::CollectionsListResponse response;
  ASSERT_TRUE(response.ParseFromString(ended.answer));
  ASSERT_EQ(response.collections_size(), 2);
  EXPECT_EQ(response.collections(0).name(), "mine-1");
  EXPECT_EQ(response.collections(1).name(), "mine-2");
}

TEST_F(AccessTest, AScrollTokenLeadsToNoForeignCollection) {
  engine_.on_scroll = [](int64_t, const std::string&, int64_t) {
    ScrollPage page;
    page.collection = "theirs";
    page.items.emplace_back();
    return page;
  };
  Serve(KeyLine("mine", auth::kRead, {"mine"}));
  const Ended ended = Call("Retrieval/Scroll", "mine", "mine-key");
  EXPECT_EQ(ended.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ended.answer, "");
}

}  // namespace
}  // namespace lightcone::server
