// Who may call what: every method of the wire with every kind of key.
#include "server/auth/access.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <set>

#include "absl/strings/str_replace.h"
#include "lightcone/v1/backfill.pb.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "lightcone/v1/snapshots.pb.h"
#include "tests/rpc/keys_fixture.h"

namespace lightcone::server {
namespace {

using google::protobuf::FieldDescriptor;
using testing::HasSubstr;
using testing::Not;

// The scopes that each method needs, as the documentation promises them. Not the server's own table.
const std::map<std::string, std::string>& PromisedScopes() {
  static const std::map<std::string, std::string> promised = [] {
    std::map<std::string, std::string> out;
    const auto add = [&out](const std::string& scopes, const std::string& service, std::vector<std::string> methods) {
      for (const std::string& method : methods) out[service + "/" + method] = scopes;
    };
    add("read", "Retrieval", {"Get", "Search", "Scroll", "Count", "Facet"});
    add("write", "Retrieval", {"Upsert", "UpsertStream", "Delete", "ChangePayload"});
    add("read", "Collections", {"List", "Get"});
    add("operate", "Collections", {"Update", "Rebuild", "IndexPayload"});
    add("admin", "Collections", {"Create", "Drop", "SetAlias", "Snapshot", "Restore"});
    add("read", "Generations", {"List", "Get", "GetCanary", "ListAdapters", "ListProbes", "SampleItems"});
    add("operate", "Generations",
        {"Audit", "Register", "Activate", "SetCanary", "Rollback", "PutAdapter", "DropAdapter", "FitAdapter",
         "Validate", "Retire", "PutProbes", "DropProbes"});
    add("read", "Backfill", {"Status", "Watch"});
    add("both", "Backfill", {"Lease"});
    add("operate", "Backfill", {"Start", "Pause", "Estimate"});
    add("read", "Jobs", {"Get", "List", "Watch"});
    add("operate", "Jobs", {"Cancel"});
    add("read", "Training", {"Get", "List", "Watch"});
    add("operate", "Training", {"Cancel"});
    add("admin", "Training", {"Start"});
    add("admin", "Snapshots",
        {"CreateSnapshot", "ListSnapshots", "DeleteSnapshot", "VerifySnapshot", "DownloadSnapshot", "UploadSnapshot",
         "RestoreCollection"});
    return out;
  }();
  return promised;
}

// Names a collection, an alias, a job and so on in every text field that has such a name, in nested messages too.
void FillIn(google::protobuf::Message* message, const std::string& collection) {
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    const std::string& name = field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated()) {
      if (name == "collection" || name == "name" || name == "alias") {
        message->GetReflection()->SetString(message, field, collection);
      }
      if (name == "id") message->GetReflection()->SetString(message, field, "7");
    }
    if (name == "batch") FillIn(message->GetReflection()->MutableMessage(message, field), collection);
  }
}

std::string MessageFor(const std::string& method, const std::string& collection) {
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      "lightcone.v1." + std::string(absl::StrReplaceAll(method, {{"/", "."}})));
  const auto* type = google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor->input_type());
  const std::unique_ptr<google::protobuf::Message> message(type->New());
  FillIn(message.get(), collection);
  return message->SerializeAsString();
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

TEST_F(AccessTest, EveryMethodTakesTheKeysThatItsScopesPromise) {
  const std::vector<std::string> scopes = {"read", "write", "operate", "admin", "both"};
  Serve(KeyLine("read", auth::kRead) + KeyLine("write", auth::kWrite) + KeyLine("operate", auth::kOperate) +
        KeyLine("admin", auth::kAdmin) + KeyLine("both", auth::kRead | auth::kWrite) +
        KeyLine("expired", auth::kAdmin, {"*"}, absl::Now() - absl::Hours(1)) +
        KeyLine("other", auth::kAdmin, {"other-*"}));
  const std::set<std::string> lists = {"Collections/List"};
  std::string expected, actual;
  for (const std::string& method : MethodNames()) {
    ASSERT_TRUE(PromisedScopes().contains(method)) << method << " needs a row in the test and in server/auth/access.cc";
    const std::string& promised = PromisedScopes().at(method);
    expected += method + " UUU";
    actual += method + " ";
    for (const char* key : {"", "wrong-key", "expired-key"}) actual += LetterOf(method, Call(method, "mine", key));
    for (const std::string& scope : scopes) {
      const bool may =
          scope == "admin" || scope == promised || (scope == "both" && (promised == "read" || promised == "write"));
      expected += may ? '.' : 'D';
      actual += LetterOf(method, Call(method, "mine", scope + "-key"));
    }
    const auto* access = auth::FindAccess(method);
    ASSERT_NE(access, nullptr) << method;
    expected += !access->job_field.empty() ? "N\n" : lists.contains(method) ? ".\n" : "D\n";
    actual += LetterOf(method, Call(method, "mine", "other-key"));
    actual += '\n';
  }
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(PromisedScopes().size(), MethodNames().size());
}

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
