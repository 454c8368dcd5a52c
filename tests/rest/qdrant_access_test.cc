// What Qdrant's tests say about who may do what, on a server with a real store: each action of its REST API, with each
// kind of its tokens and keys, and the method of gRPC that does the same here.
#include <map>
#include <set>
#include <span>

#include "absl/strings/str_replace.h"
#include "base/files.h"
#include "server/auth/key_file.h"
#include "server/rest/endpoints.h"
#include "tests/rest/rest_fixture.h"
#include "tests/rpc/keys_fixture.h"
#include "tests/rpc/method_messages.h"
#include "tests/support/tokens.h"

namespace lightcone::server {
namespace {

// Who may take an action, in Qdrant's words: `r` and `m` are tokens for everything, the others for one collection.
enum class QdrantAccess {
  kEverybody,  // also without a key
  kList,       // r, m, and tokens for any collection, which see theirs
  kRead,       // r, m, and r, rw, prw of the collection
  kReadAll,    // r, m
  kPoints,     // m, and rw, prw of the collection
  kIndexes,    // m, and rw of the collection
  kManage,     // m
  kAbsent,     // The server does not have the action: nobody.
};

struct QdrantAction {
  std::string_view name, method, path;
  QdrantAccess access;
  std::string_view body = "";
  std::string_view grpc = "";  // our method that does the same; empty: none
};

#define LC_MINE "/collections/{collection}"
using enum QdrantAccess;

constexpr QdrantAction kCollectionActions[] = {
    {"list_collections", "GET", "/collections", kList, "", "Collections/List"},
    {"get_collection", "GET", LC_MINE, kRead, "", "Collections/Get"},
    {"create_collection", "PUT", "/collections/fresh", kManage, R"({"vectors":{"size":2,"distance":"Dot"}})",
     "Collections/Create"},
    {"delete_collection", "DELETE", LC_MINE, kManage, "", "Collections/Drop"},
    {"update_collection_params", "PATCH", LC_MINE, kManage, "{}", "Collections/Update"},
    {"get_collection_cluster_info", "GET", LC_MINE "/cluster", kAbsent},
    {"collection_exists", "GET", LC_MINE "/exists", kRead},
    {"get_optimizations", "GET", LC_MINE "/optimizations", kAbsent},
    {"replicate_shard_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"replicate_shard":{"shard_id":1}})"},
    {"create_default_shard_key_operation", "POST", LC_MINE "/cluster", kAbsent,
     R"({"create_sharding_key":{"shard_key":"a"}})"},
    {"create_custom_shard_key_operation", "POST", LC_MINE "/cluster", kAbsent,
     R"({"create_sharding_key":{"shard_key":"a","replication_factor":3}})"},
    {"drop_shard_key_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"drop_sharding_key":{"shard_key":"a"}})"},
    {"move_shard_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"move_shard":{"shard_id":1}})"},
    {"abort_shard_transfer_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"abort_transfer":{"shard_id":1}})"},
    {"drop_shard_replica_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"drop_replica":{"shard_id":1}})"},
    {"restart_transfer_operation", "POST", LC_MINE "/cluster", kAbsent, R"({"restart_transfer":{"shard_id":1}})"},
    {"create_alias", "POST", "/collections/aliases", kManage,
     R"({"actions":[{"create_alias":{"collection_name":"mine","alias_name":"new"}}]})", "Collections/SetAlias"},
    {"rename_alias", "POST", "/collections/aliases", kManage,
     R"({"actions":[{"rename_alias":{"old_alias_name":"live","new_alias_name":"new"}}]})"},
    {"delete_alias", "POST", "/collections/aliases", kManage,
     R"({"actions":[{"delete_alias":{"alias_name":"live"}}]})"},
    {"list_collection_aliases", "GET", LC_MINE "/aliases", kRead},
    {"list_aliases", "GET", "/aliases", kList},
    {"create_default_shard_key", "PUT", LC_MINE "/shards", kAbsent, R"({"shard_key":"a"})"},
    {"create_custom_shard_key", "PUT", LC_MINE "/shards", kAbsent, R"({"shard_key":"a","replication_factor":3})"},
    {"delete_shard_key", "POST", LC_MINE "/shards/delete", kAbsent, R"({"shard_key":"a"})"},
    {"list_shard_keys", "GET", LC_MINE "/shards", kAbsent},
    {"create_index", "PUT", LC_MINE "/index", kIndexes, R"({"field_name":"size","field_schema":"integer"})",
     "Collections/IndexPayload"},
    {"delete_index", "DELETE", LC_MINE "/index/{field_name}", kIndexes},
    {"create_vector_name", "PUT", LC_MINE "/vectors/new", kAbsent, R"({"dense":{"size":2,"distance":"Dot"}})"},
    {"delete_vector_name", "DELETE", LC_MINE "/vectors/new", kAbsent},
};

// The command line and gRPC make snapshots, which may hold every collection: no token but `m` reaches them.
constexpr QdrantAction kSnapshotAndClusterActions[] = {
    {"list_collection_snapshots", "GET", LC_MINE "/snapshots", kAbsent},
    {"create_collection_snapshot", "POST", LC_MINE "/snapshots", kAbsent},
    {"delete_collection_snapshot", "DELETE", LC_MINE "/snapshots/monday", kAbsent},
    {"download_collection_snapshot", "GET", LC_MINE "/snapshots/monday", kAbsent},
    {"upload_collection_snapshot", "POST", LC_MINE "/snapshots/upload", kAbsent, "bytes"},
    {"recover_collection_snapshot", "PUT", LC_MINE "/snapshots/recover", kAbsent, R"({"location":"file:///tmp/a"})"},
    {"upload_shard_snapshot", "POST", LC_MINE "/shards/0/snapshots/upload", kAbsent, "bytes"},
    {"recover_shard_snapshot", "PUT", LC_MINE "/shards/0/snapshots/recover", kAbsent, R"({"location":"a"})"},
    {"create_shard_snapshot", "POST", LC_MINE "/shards/0/snapshots", kAbsent},
    {"list_shard_snapshots", "GET", LC_MINE "/shards/0/snapshots", kAbsent},
    {"delete_shard_snapshot", "DELETE", LC_MINE "/shards/0/snapshots/monday", kAbsent},
    {"download_shard_snapshot", "GET", LC_MINE "/shards/0/snapshots/monday", kAbsent},
    {"stream_shard_snapshot", "GET", LC_MINE "/shards/0/snapshot", kAbsent},
    {"list_full_snapshots", "GET", "/snapshots", kAbsent},
    {"create_full_snapshot", "POST", "/snapshots", kAbsent},
    {"delete_full_snapshot", "DELETE", "/snapshots/monday", kAbsent},
    {"download_full_snapshot", "GET", "/snapshots/monday", kAbsent},
    {"get_cluster", "GET", "/cluster", kAbsent},
    {"cluster_telemetry", "GET", "/cluster/telemetry", kAbsent},
    {"recover_raft_state", "POST", "/cluster/recover", kAbsent},
    {"delete_peer", "DELETE", "/cluster/peer/0", kAbsent},
    {"get_quotas", "GET", "/quotas", kAbsent},
    {"update_quotas", "PUT", "/quotas", kAbsent, "{}"},
};

constexpr QdrantAction kPointActions[] = {
    {"get_point", "GET", LC_MINE "/points/{id}", kRead},
    {"get_points", "POST", LC_MINE "/points", kRead, R"({"ids":[1]})", "Retrieval/Get"},
    {"upsert_points", "PUT", LC_MINE "/points", kPoints, R"({"points":[{"id":9,"vector":[1,2]}]})", "Retrieval/Upsert"},
    {"update_points_batch", "POST", LC_MINE "/points/batch", kPoints,
     R"({"operations":[{"upsert":{"points":[{"id":9,"vector":[1,2]}]}},{"delete":{"points":[1]}}]})"},
    {"delete_points", "POST", LC_MINE "/points/delete", kPoints, R"({"points":[1]})", "Retrieval/Delete"},
    {"update_vectors", "PUT", LC_MINE "/points/vectors", kPoints, R"({"points":[{"id":1,"vector":[2,1]}]})"},
    {"delete_vectors", "POST", LC_MINE "/points/vectors/delete", kAbsent, R"({"points":[1],"vector":[""]})"},
    {"set_payload", "POST", LC_MINE "/points/payload", kPoints, R"({"points":[1],"payload":{"size":4}})",
     "Retrieval/ChangePayload"},
    {"overwrite_payload", "PUT", LC_MINE "/points/payload", kPoints, R"({"points":[1],"payload":{"size":4}})"},
    {"delete_payload", "POST", LC_MINE "/points/payload/delete", kPoints, R"({"points":[1],"keys":["colour"]})"},
    {"clear_payload", "POST", LC_MINE "/points/payload/clear", kPoints, R"({"points":[1]})"},
    {"scroll_points", "POST", LC_MINE "/points/scroll", kRead, R"({"limit":10})", "Retrieval/Scroll"},
    {"search_points", "POST", LC_MINE "/points/search", kRead, R"({"vector":[1,2],"limit":3})", "Retrieval/Search"},
    {"search_points_batch", "POST", LC_MINE "/points/search/batch", kRead,
     R"({"searches":[{"vector":[1,2],"limit":3}]})"},
    {"search_point_groups", "POST", LC_MINE "/points/search/groups", kRead,
     R"({"vector":[1,2],"limit":3,"group_by":"colour","group_size":2})"},
    {"recommend_points", "POST", LC_MINE "/points/recommend", kRead, R"({"positive":[1],"limit":3})"},
    {"recommend_points_batch", "POST", LC_MINE "/points/recommend/batch", kRead,
     R"({"searches":[{"positive":[1],"limit":3}]})"},
    {"recommend_point_groups", "POST", LC_MINE "/points/recommend/groups", kAbsent,
     R"({"positive":[1],"limit":3,"group_by":"colour","group_size":2})"},
    {"discover_points", "POST", LC_MINE "/points/discover", kAbsent, R"({"target":1,"limit":3})"},
    {"discover_points_batch", "POST", LC_MINE "/points/discover/batch", kAbsent,
     R"({"searches":[{"target":1,"limit":3}]})"},
    {"count_points", "POST", LC_MINE "/points/count", kRead, "{}", "Retrieval/Count"},
    {"query_points", "POST", LC_MINE "/points/query", kRead, R"({"query":[1,2]})"},
    {"query_batch_points", "POST", LC_MINE "/points/query/batch", kRead, R"({"searches":[{"query":[1,2]}]})"},
    {"query_points_groups", "POST", LC_MINE "/points/query/groups", kRead,
     R"({"query":[1,2],"limit":3,"group_by":"colour","group_size":2})"},
    {"search_points_matrix_offsets", "POST", LC_MINE "/points/search/matrix/offsets", kAbsent, R"({"sample":3})"},
    {"search_points_matrix_pairs", "POST", LC_MINE "/points/search/matrix/pairs", kAbsent, R"({"sample":3})"},
    {"facet", "POST", LC_MINE "/facet", kRead, R"({"key":"colour"})", "Retrieval/Facet"},
};

constexpr QdrantAction kServiceActions[] = {
    {"root", "GET", "/", kEverybody},
    {"readyz", "GET", "/readyz", kEverybody},
    {"healthz", "GET", "/healthz", kEverybody},
    {"livez", "GET", "/livez", kEverybody},
    {"telemetry", "GET", "/telemetry", kList},
    {"metrics", "GET", "/metrics", kReadAll},
    {"get_issues", "GET", "/issues", kAbsent},
    {"clear_issues", "DELETE", "/issues", kAbsent},
    {"get_logger_config", "GET", "/logger", kAbsent},
    {"update_logger_config", "POST", "/logger", kAbsent, "{}"},
    // These are calls of gRPC alone, by Qdrant's own names.
    {"storage_read_list_files", "", "qdrant.StorageRead/ListFiles", kAbsent},
    {"storage_read_file_exists", "", "qdrant.StorageRead/FileExists", kAbsent},
    {"storage_read_file_length", "", "qdrant.StorageRead/FileLength", kAbsent},
    {"storage_read_read_bytes", "", "qdrant.StorageRead/ReadBytes", kAbsent},
    {"storage_read_read_bytes_stream", "", "qdrant.StorageRead/ReadBytesStream", kAbsent},
    {"storage_read_read_whole", "", "qdrant.StorageRead/ReadWhole", kAbsent},
    {"storage_read_read_batch", "", "qdrant.StorageRead/ReadBatch", kAbsent},
};
#undef LC_MINE

std::vector<QdrantAction> QdrantActions() {
  std::vector<QdrantAction> all;
  for (const std::span<const QdrantAction> some :
       {std::span<const QdrantAction>(kCollectionActions), std::span<const QdrantAction>(kSnapshotAndClusterActions),
        std::span<const QdrantAction>(kPointActions), std::span<const QdrantAction>(kServiceActions)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

const std::string kQdrantSecret = "a secret that signs tokens, of 32 bytes and more";

// A caller by what it shows.
struct QdrantCaller {
  std::string name, key;            // key or token; empty: none
  std::set<QdrantAccess> may = {};  // beside kEverybody
  bool is_known = true;             // else it is refused with 401 and not with 403
};

std::vector<QdrantCaller> QdrantCallers() {
  const auto token = [](const std::string& access) {
    return SignedToken("{\"access\":" + access + "}", kQdrantSecret);
  };
  const auto of_mine = [&token](const std::string& access) {
    return token(R"([{"collection":"mine","access":)" + access + "}]");
  };
  const std::set<QdrantAccess> reader = {kList, kRead, kReadAll};
  const std::set<QdrantAccess> manager = {kList, kRead, kReadAll, kPoints, kIndexes, kManage};
  return {
      {"nobody", "", {}, false},
      {"unknown key", "guess", {}, false},
      {"token of another secret", SignedToken(R"({"access":"m"})", "a secret that nobody told this server"), {}, false},
      {"expired token", SignedToken(R"({"access":"m","exp":1000})", kQdrantSecret), {}, false},
      {"collection r by payload", of_mine(R"("r","payload":{"user_id":123})"), {}, false},
      {"collection rw by payload", of_mine(R"("rw","payload":{"user_id":"123"})"), {}, false},
      {"r", token("\"r\""), reader},
      {"m", token("\"m\""), manager},
      {"collection r", of_mine("\"r\""), {kList, kRead}},
      {"collection prw", of_mine("\"prw\""), {kList, kRead, kPoints}},
      {"collection rw", of_mine("\"rw\""), {kList, kRead, kPoints, kIndexes}},
      {"another collection", token(R"([{"collection":"theirs","access":"rw"}])"), {kList}},
      {"API key", "admin-key", manager},
      {"read-only API key", "read-key", reader},
  };
}

class QdrantAccessTest : public RestTest {
 protected:
  void SetUp() override {
    SetUpLog("off", "text");
    ASSERT_TRUE(
        WriteFileAtomically(folder_ / "keys", KeyLine("admin", auth::kAdmin) + KeyLine("read", auth::kRead)).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "secrets", kQdrantSecret + "\n").ok());
    ServerConfig config;
    config.listen = config.http_listen = "127.0.0.1:0";
    config.auth = {.keys_file = folder_ / "keys", .token_secrets_file = folder_ / "secrets"};
    config.engine.data_folder = folder_ / "data";
    config.engine.store.memory_bytes = 32 << 20;
    config.engine.live_recall.sample_share = 0;
    auto server = RunningServer::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", Port());
    client_->set_read_timeout(60);
    channel_ = grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials());
    Refill();
  }
  void TearDown() override { channel_.reset(); }

  Reply Ask(const QdrantAction& action, const std::string& key) {
    const std::string path = absl::StrReplaceAll(std::string(action.path),
                                                 {{"{collection}", "mine"}, {"{id}", "1"}, {"{field_name}", "colour"}});
    httplib::Headers headers;
    if (!key.empty()) headers.emplace("Authorization", "Bearer " + key);
    return Send(std::string(action.method), path, std::string(action.body), std::move(headers));
  }

  void Make(const std::string& method, const std::string& path, const std::string& body) {
    const Reply reply = Send(method, path, body, {{"api-key", "admin-key"}});
    ASSERT_EQ(reply.status, 200) << path << reply.text;
  }

  // The collections as each cell meets them.
  void Refill() {
    for (const char* name : {"mine", "theirs", "fresh"}) {
      ASSERT_EQ(Send("DELETE", StrCat("/collections/", name), "", {{"api-key", "admin-key"}}).status, 200);
    }
    for (const char* name : {"mine", "theirs"}) {
      Make("PUT", StrCat("/collections/", name), R"({"vectors":{"size":2,"distance":"Dot"}})");
    }
    Make("PUT", "/collections/mine/points?wait=true",
         R"({"points":[{"id":1,"vector":[1,0],"payload":{"colour":"red","size":1}},{"id":2,"vector":[0,1]}]})");
    Make("PUT", "/collections/mine/index?wait=true", R"({"field_name":"colour","field_schema":"keyword"})");
    Make("POST", "/collections/aliases",
         R"({"actions":[{"create_alias":{"collection_name":"mine","alias_name":"live"}}]})");
    state_ = State();
  }

  // What any action that does something changes.
  std::string State() {
    std::string state;
    const auto collections = server_->engine().ListCollections();
    EXPECT_TRUE(collections.ok()) << collections.status();
    if (!collections.ok()) return state;
    for (const CollectionStatus& one : *collections) {
      state += StrCat(one.name, " ", one.items, " items, ", one.sequence, ":");
      for (const std::string& alias : one.aliases) state += " " + alias;
      for (const PayloadIndexStatus& index : one.payload_indexes) state += " [" + index.field.path + "]";
      state += "\n";
    }
    return state;
  }

  static bool Changes(const QdrantAction& action) {
    const bool writes = action.access == kPoints || action.access == kIndexes || action.access == kManage;
    return writes && action.name != "update_collection_params";  // Its settings have no counterpart.
  }

  // One action with one caller, over HTTP.
  void CheckRest(const QdrantAction& action, const QdrantCaller& caller) {
    const std::string shown = StrCat(action.name, " by ", caller.name);
    const Reply reply = Ask(action, caller.key);
    if (action.access == kAbsent) {
      EXPECT_TRUE(reply.status == 404 || reply.status == 405 || reply.status == 501) << shown << reply.text;
    } else if (action.access == kEverybody || caller.may.contains(action.access)) {
      EXPECT_EQ(reply.status, 200) << shown << reply.text;
      EXPECT_EQ(State() != state_, Changes(action)) << shown;
      if (caller.name == "another collection" && action.access == kList) {
        EXPECT_EQ(reply.text.find("\"mine\""), std::string::npos) << shown << reply.text;
      }
      if (State() != state_) Refill();
      return;
    } else if (caller.is_known) {
      EXPECT_EQ(reply.status, 403) << shown << reply.text;
    } else {
      EXPECT_TRUE(reply.status == 401 || reply.status == 429) << shown << reply.status;
    }
    EXPECT_EQ(State(), state_) << shown << ": a refused call did something";
  }

  // The same over gRPC, with a message that names the collection alone.
  void CheckGrpc(const std::string& method, const std::string& message, const QdrantAction& action,
                 const QdrantCaller& caller) {
    const std::string shown = StrCat(method, " by ", caller.name);
    const Ended ended =
        CallByName(channel_, "/" + method, message, caller.key.empty() ? "" : "Bearer " + caller.key, "authorization");
    const grpc::StatusCode code = ended.status.error_code();
    if (action.access == kAbsent) {
      EXPECT_EQ(code, grpc::UNIMPLEMENTED) << shown << ended.status.error_message();
    } else if (caller.may.contains(action.access)) {
      EXPECT_NE(code, grpc::PERMISSION_DENIED) << shown << ended.status.error_message();
      EXPECT_NE(code, grpc::UNAUTHENTICATED) << shown << ended.status.error_message();
      if (State() != state_) Refill();
      return;
    } else if (caller.is_known) {
      EXPECT_EQ(code, grpc::PERMISSION_DENIED) << shown << ended.status.error_message();
    } else {
      EXPECT_TRUE(code == grpc::UNAUTHENTICATED || code == grpc::RESOURCE_EXHAUSTED) << shown << code;
    }
    EXPECT_EQ(State(), state_) << shown << ": a refused call did something";
  }

  std::string state_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(QdrantAccessTest, EachActionOfQdrantIsTakenByTheTokensThatItsTestsAllow) {
  int rest = 0, over_grpc = 0;
  for (const QdrantAction& action : QdrantActions()) {
    for (const QdrantCaller& caller : QdrantCallers()) {
      if (action.method.empty()) {
        CheckGrpc(std::string(action.path), "", action, caller);
        ++over_grpc;
        continue;
      }
      CheckRest(action, caller);
      ++rest;
      if (action.grpc.empty()) continue;
      const std::string method(action.grpc);
      const std::string collection = action.name == "create_collection" ? "fresh" : "mine";
      CheckGrpc("lightcone.v1." + method, MessageFor(method, collection), action, caller);
      ++over_grpc;
    }
  }
  RecordProperty("rest", rest);
  RecordProperty("grpc", over_grpc);
}

// Qdrant counts three more tests: no action, no path and no method is left out.
TEST(QdrantActions, LeaveOutNoPathOfTheServer) {
  std::set<std::string> names, paths;
  int absent = 0;
  for (const QdrantAction& action : QdrantActions()) {
    EXPECT_TRUE(names.insert(std::string(action.name)).second) << action.name << " is there twice";
    const std::string path = absl::StrReplaceAll(std::string(action.path), {{"/fresh", "/{collection}"}});
    paths.insert(StrCat(action.method, " ", path));
    absent += action.access == kAbsent ? 1 : 0;
  }
  EXPECT_EQ(names.size(), 96u) << "Qdrant has 96 actions";
  EXPECT_EQ(absent, 56) << "an action that is new here needs its access";
  for (const Endpoint& endpoint : Endpoints()) {
    EXPECT_TRUE(paths.contains(StrCat(endpoint.method, " ", endpoint.path))) << endpoint.name;
  }
  for (const RefusedEndpoint& refused : RefusedEndpoints()) {
    EXPECT_TRUE(paths.contains(StrCat(refused.method, " ", refused.path))) << refused.method << " " << refused.path;
  }
}

// Whether a path is open is told by its route, not by how the path begins.
TEST_F(QdrantAccessTest, APathThatBeginsLikeAnOpenOneOpensNothing) {
  for (const char* path : {"/console%2f..%2fcollections", "/console/../collections", "/console/%2e%2e/collections",
                           "/healthz/../collections", "//collections", "/collections/", "/collections/mine%2f"}) {
    const Reply reply = Send("GET", path);
    EXPECT_NE(reply.status, 200) << path;
    EXPECT_EQ(reply.text.find("mine\""), std::string::npos) << path << reply.text;
  }
}

}  // namespace
}  // namespace lightcone::server
