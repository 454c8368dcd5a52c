// The file of keys, who is let in, and what is said to those who are not.
#include <set>

#include "base/files.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/auth/access.h"
#include "server/auth/key_file.h"
#include "server/auth/keyring.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server::auth {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

MATCHER_P2(Fails, code, text, "") {
  *result_listener << arg.ToString();
  return arg.code() == code && MessageOf(arg).find(text) != std::string::npos;
}

constexpr auto kUnauthenticated = absl::StatusCode::kUnauthenticated;
constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

KeyEntry EntryOf(const std::string& name, const std::string& key, Scopes scopes,
                 std::vector<std::string> collections = {"*"}) {
  KeyEntry entry;
  entry.name = name;
  entry.hash = HashOf(key);
  entry.grant = {scopes, std::move(collections)};
  return entry;
}

TEST(Patterns, AStarStandsForAnyText) {
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("shop-*", "shop-"));
  EXPECT_TRUE(MatchesPattern("*-prod-*", "shop-prod-7"));
  EXPECT_TRUE(MatchesPattern("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(MatchesPattern("shop-*", "shop"));
  EXPECT_FALSE(MatchesPattern("shop", "shop2"));
  EXPECT_FALSE(MatchesPattern("a*b*c", "a-c-b"));
}

TEST(KeyFile, ALineGivesItsEntryBack) {
  KeyEntry entry = EntryOf("search", "k", kRead | kWrite, {"shop-*", "news"});
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, "2030-01-31T00:00:00Z", &entry.expires, nullptr));
  const auto back = ParseKeys("# keys\n\n" + LineOf(entry) + "\r\n");
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), 1u);
  EXPECT_EQ(LineOf(back->front()), LineOf(entry));
  EXPECT_EQ(back->front().hash, entry.hash);
  EXPECT_EQ(back->front().expires, entry.expires);
}

TEST(KeyFile, ErrorsNameTheLineAndTheField) {
  const std::string good = LineOf(EntryOf("a", "k", kRead)) + "\n";
  EXPECT_THAT(ParseKeys(good + "{}").status(), Fails(kInvalid, "line 2: field 'sha256'"));
  EXPECT_THAT(ParseKeys("lck_secret").status(), AllOf(Fails(kInvalid, "line 1"), Not(Fails(kInvalid, "secret"))));
  EXPECT_THAT(ParseKeys(good + good).status(), Fails(kInvalid, "line 2: its key or certificate stands"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","sha256":"00","scopes":["read"]})").status(), Fails(kInvalid, "sha256"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","certificate":"c","scopes":["all"]})").status(), Fails(kInvalid, "'all'"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","certificate":"c","scopes":[]})").status(), Fails(kInvalid, "scopes"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","certificate":"c","scopes":["read"],"expire":""})").status(),
              Fails(kInvalid, "'expire'"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","certificate":"c","scopes":["read"],"expires":"soon"})").status(),
              Fails(kInvalid, "expires"));
  EXPECT_THAT(ParseKeys(R"({"name":"a","certificate":"c","scopes":["read"],"collections":["a b"]})").status(),
              Fails(kInvalid, "collections"));
  EXPECT_THAT(ParseKeys(R"({"name":"a b","certificate":"c","scopes":["read"]})").status(), Fails(kInvalid, "name"));
}

TEST(KeyFile, ANameMayStandTwiceWhileItsKeyIsReplaced) {
  const std::string two = LineOf(EntryOf("a", "1", kRead)) + "\n" + LineOf(EntryOf("a", "2", kRead)) + "\n";
  EXPECT_TRUE(ParseKeys(two).ok());
  EXPECT_THAT(ParseKeys(two + LineOf(EntryOf("a", "3", kRead))).status(), Fails(kInvalid, "third"));
}

TEST(KeyFile, EachKeyIsNew) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(MakeKey().value());
  EXPECT_EQ(keys.size(), 100u);
  EXPECT_EQ(keys.begin()->size(), 47u);
}

TEST(AccessTable, EachMethodStandsOnce) {
  std::set<std::string_view> methods;
  for (const Access& access : AccessTable()) {
    EXPECT_TRUE(methods.insert(access.method).second) << access.method;
    EXPECT_EQ(FindAccess(access.method), &access);
  }
  EXPECT_EQ(FindAccess("Retrieval/Nothing"), nullptr);
}

class KeyringTest : public testing::Test {
 protected:
  void Write(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", text).ok()); }

  void Open(const std::string& text) {
    Write(text);
    auto keys = Keyring::Open({.keys_file = folder_ / "keys",
                               .log = [this](const std::string& line) { log_.push_back(line); },
                               .clock = [this] { return now_; }});
    ASSERT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
  }

  absl::StatusOr<PrincipalPtr> Show(const std::string& key, const std::string& peer = "ipv4:10.0.0.7:1") {
    return keys_->Authenticate({.key = key, .certificates = {}, .peer = peer});
  }

  TemporaryFolder folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'900'000'000);
  std::vector<std::string> log_;
  std::unique_ptr<Keyring> keys_;
};

TEST_F(KeyringTest, LetsAValidKeyInAndSaysWhatIsWrongWithAnother) {
  KeyEntry old = EntryOf("old", "old-key", kRead);
  old.expires = now_;
  Open(LineOf(EntryOf("search", "good-key", kRead)) + "\n" + LineOf(old) + "\n");
  ASSERT_TRUE(Show("good-key").ok());
  EXPECT_EQ((*Show("good-key"))->name, "search");
  EXPECT_THAT(Show("").status(), Fails(kUnauthenticated, "has no key"));
  EXPECT_THAT(Show("bad-key").status(), Fails(kUnauthenticated, "not known"));
  EXPECT_THAT(Show("old-key").status(), Fails(kUnauthenticated, "key 'old' expired at 2030-03-17T17:46:40"));
  EXPECT_THAT(keys_->figures().refused_total, ElementsAre(1, 1, 1, 0, 0));
}

TEST_F(KeyringTest, ACertificateThatIsInTheFileNeedsNoKey) {
  KeyEntry entry = EntryOf("worker", "", kWrite);
  entry.certificate = "worker.example";
  Open(LineOf(entry));
  const auto found = keys_->Authenticate({.key = "", .certificates = {"other", "worker.example"}, .peer = "unix:"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->name, "worker");
  EXPECT_THAT(keys_->Authenticate({.key = "", .certificates = {"other"}, .peer = "unix:"}).status(),
              Fails(kUnauthenticated, "not in the file of keys"));
}

TEST_F(KeyringTest, ScopesAndCollectionsAreChecked) {
  Open(LineOf(EntryOf("shop", "k", kRead | kWrite, {"shop-*"})));
  const PrincipalPtr shop = Show("k").value();
  EXPECT_TRUE(keys_->CheckCall(*shop, kRead, "Retrieval/Get").ok());
  EXPECT_THAT(keys_->CheckCall(*shop, kOperate, "Jobs/Cancel"), Fails(kDenied, "Jobs/Cancel needs scope operate"));
  EXPECT_TRUE(keys_->CheckCollection(*shop, kRead, "shop-1", "shop-1").ok());
  EXPECT_THAT(keys_->CheckCollection(*shop, kRead, "news", "alias"), Fails(kDenied, "collection 'alias'"));
  EXPECT_TRUE((Scopes{kAdmin}.Include(kRead | kWrite | kOperate)));
  EXPECT_TRUE((kOperate.Include(kIndex) && !kIndex.Include(kOperate)));
  EXPECT_EQ(TextOf(kIndex), "operate");
  EXPECT_THAT(keys_->figures().refused_total, ElementsAre(0, 0, 0, 1, 1));
}

TEST_F(KeyringTest, ACredentialIsLookedUpWithoutItsKeyAndNothingIsCounted) {
  KeyEntry entry;
  entry.name = "ann";
  entry.hash = HashOf("key");
  entry.grant = {kRead, {"*"}};
  entry.expires = now_ + absl::Seconds(10);
  Open(LineOf(entry));
  const Credential credential = CredentialOf("key");
  ASSERT_TRUE(keys_->LookUp(credential).ok());
  EXPECT_EQ((*keys_->LookUp(credential))->name, "ann");
  EXPECT_EQ(keys_->LookUp(CredentialOf("other")).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(keys_->LookUp(CredentialOf("a.b.c")).status().code(), absl::StatusCode::kUnauthenticated);
  now_ += absl::Seconds(10);
  EXPECT_EQ(keys_->LookUp(credential).status().code(), absl::StatusCode::kUnauthenticated);
  for (const uint64_t refused : keys_->figures().refused_total) EXPECT_EQ(refused, 0u);
  EXPECT_TRUE(log_.empty());
}

TEST_F(KeyringTest, ANewFileReplacesTheKeysAndABrokenOneLeavesThem) {
  Open(LineOf(EntryOf("a", "first", kRead)));
  Write(LineOf(EntryOf("a", "first", kRead)) + "\n" + LineOf(EntryOf("a", "second", kRead)));
  ASSERT_TRUE(keys_->Reload().ok());
  EXPECT_TRUE(Show("first").ok());
  EXPECT_TRUE(Show("second").ok());
  Write(LineOf(EntryOf("a", "second", kRead)) + "\n{");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(keys_->Reload(), Fails(kInvalid, "line 2"));  // counted once
  EXPECT_TRUE(Show("first").ok());
  Write(LineOf(EntryOf("a", "second", kRead)));
  ASSERT_TRUE(keys_->Reload().ok());
  EXPECT_THAT(Show("first").status(), Fails(kUnauthenticated, "not known"));
  EXPECT_TRUE(Show("second").ok());
  ASSERT_TRUE(keys_->Reload().ok());  // nothing has changed
  EXPECT_EQ(keys_->figures().reloads_total, 2u);
  EXPECT_EQ(keys_->figures().failed_reloads_total, 1u);
}

TEST_F(KeyringTest, FailuresOfAPeerAreLimitedAndItsValidKeyPasses) {
  Open(LineOf(EntryOf("a", "good", kRead)));
  for (int i = 0; i < FailureLimit::kBurst; ++i) {
    EXPECT_THAT(Show("wrong", StrCat("ipv4:10.0.0.7:", i)).status(), Fails(kUnauthenticated, "not known"));
  }
  EXPECT_THAT(Show("wrong").status(), Fails(absl::StatusCode::kResourceExhausted, "ipv4:10.0.0.7"));
  EXPECT_TRUE(Show("good").ok());
  EXPECT_THAT(Show("wrong", "ipv4:10.0.0.8:1").status(), Fails(kUnauthenticated, "not known"));
  now_ += absl::Seconds(1);
  EXPECT_THAT(Show("wrong").status(), Fails(kUnauthenticated, "not known"));
  // A line for each peer, and none has the key.
  ASSERT_EQ(log_.size(), 2u);
  for (const std::string& line : log_) EXPECT_THAT(line, Not(HasSubstr("wrong")));
}

}  // namespace
}  // namespace lightcone::server::auth
