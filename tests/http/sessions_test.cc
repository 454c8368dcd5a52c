// Sessions of browsers: cookies, ends, and their number.
#include "server/http/sessions.h"

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/auth/key_file.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class SessionsTest : public testing::Test {
 protected:
  void SetUp() override {
    auth::KeyEntry entry;
    entry.name = "ann";
    entry.hash = auth::HashOf("key");
    entry.grant = {auth::kRead, {"*"}};
    ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", auth::LineOf(entry)).ok());
    auto keys = auth::Keyring::Open({.keys_file = folder_ / "keys", .clock = [this] { return now_; }});
    ASSERT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
  }
  Sessions Make(bool encrypted = false) {
    return Sessions(keys_.get(), encrypted, [this] { return now_; });
  }
  static HttpRequest With(const std::string& cookie) { return {"GET", "/", {}, {{"cookie", cookie}}, ""}; }

  TemporaryFolder folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::unique_ptr<auth::Keyring> keys_;
};

TEST_F(SessionsTest, ACookieStandsForItsKeyUntilItIsClosed) {
  Sessions sessions = Make();
  const Sessions::Opened opened = sessions.Open("key").value();
  const std::string cookie = sessions.CookieOf(opened.id);
  EXPECT_THAT(cookie, HasSubstr("; HttpOnly; SameSite=Strict"));
  EXPECT_THAT(cookie, Not(HasSubstr("Secure")));
  EXPECT_THAT(cookie, Not(HasSubstr(opened.csrf_token)));
  const std::string sent = "a=b; " + cookie.substr(0, cookie.find(';')) + "; c=d";
  const auto found = sessions.Find(With(sent));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->principal->name, "ann");
  EXPECT_TRUE(sessions.HasCsrfToken(found->id, opened.csrf_token));
  EXPECT_FALSE(sessions.HasCsrfToken(found->id, ""));
  EXPECT_FALSE(sessions.HasCsrfToken(found->id, sessions.Open("key")->csrf_token));
  sessions.Close(found->id);
  EXPECT_FALSE(sessions.Find(With(sent)).has_value());
  for (const char* other : {"", "lightcone-session=", "lightcone-session=x", "other=1"}) {
    EXPECT_FALSE(sessions.Find(With(other)).has_value()) << other;
  }
}

TEST_F(SessionsTest, UnderTlsTheCookieIsSecureAndOfThisHost) {
  Sessions sessions = Make(/*encrypted=*/true);
  EXPECT_THAT(sessions.CookieOf("x"), testing::StartsWith("__Host-lightcone-session=x; Path=/;"));
  EXPECT_THAT(sessions.CookieOf("x"), HasSubstr("; Secure"));
}

TEST_F(SessionsTest, ASessionEndsUnusedOrByItsAgeOrWithItsKey) {
  Sessions sessions = Make();
  const auto open = [&] { return "lightcone-session=" + sessions.Open("key")->id; };
  const std::string unused = open();
  now_ += Sessions::kIdleMax;
  EXPECT_FALSE(sessions.Find(With(unused)).has_value());

  const std::string old = open();
  for (absl::Duration age; age + absl::Minutes(20) < Sessions::kAgeMax; age += absl::Minutes(20)) {
    EXPECT_TRUE(sessions.Find(With(old)).has_value()) << age;
    now_ += absl::Minutes(20);
  }
  now_ += absl::Minutes(20);
  EXPECT_FALSE(sessions.Find(With(old)).has_value());

  const std::string revoked = open();
  ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", "").ok());
  ASSERT_TRUE(keys_->Reload().ok());
  EXPECT_FALSE(sessions.Find(With(revoked)).has_value());
  EXPECT_EQ(sessions.size(), 0u);
}

TEST_F(SessionsTest, OfTooManyTheOneUnusedForLongestGivesWay) {
  Sessions sessions = Make();
  const std::string first = "lightcone-session=" + sessions.Open("key")->id;
  now_ += absl::Seconds(1);
  const std::string second = "lightcone-session=" + sessions.Open("key")->id;
  now_ += absl::Seconds(1);
  EXPECT_TRUE(sessions.Find(With(first)).has_value());
  for (size_t i = 2; i < Sessions::kSessionsMax + 1; ++i) ASSERT_TRUE(sessions.Open("key").ok());
  EXPECT_EQ(sessions.size(), Sessions::kSessionsMax);
  EXPECT_TRUE(sessions.Find(With(first)).has_value());
  EXPECT_FALSE(sessions.Find(With(second)).has_value());
}

}  // namespace
}  // namespace lightcone::server
