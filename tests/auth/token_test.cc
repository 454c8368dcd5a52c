// Tokens with Qdrant's claims.
#include "server/auth/token.h"

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tokens.h"

namespace lightcone::server::auth {
namespace {

using testing::HasSubstr;

const std::string kSecret = "0123456789abcdef0123456789abcdef";

std::string TokenOf(const std::string& claims, const std::string& secret = kSecret,
                    const std::string& header = kTokenHeader) {
  return SignedToken(claims, secret, header);
}

absl::StatusOr<TokenClaims> Verify(const std::string& token) { return VerifyToken(token, {"other secret", kSecret}); }

std::string Refused(const std::string& token) {
  const auto claims = Verify(token);
  EXPECT_EQ(claims.status().code(), absl::StatusCode::kUnauthenticated);
  return MessageOf(claims.status());
}

TEST(Token, AccessGrantsWhatItSays) {
  const auto reader = Verify(TokenOf(R"({"access":"r","sub":"app","exp":1900000000})"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->principal.name, "token:app");
  EXPECT_EQ(reader->expires, absl::FromUnixSeconds(1'900'000'000));
  EXPECT_TRUE(reader->principal.MayUseAll(kRead));
  EXPECT_FALSE(reader->principal.MayCall(kWrite));

  EXPECT_TRUE(Verify(TokenOf(R"({"access":"m"})"))->principal.MayUseAll(kAdmin));

  const auto some = Verify(TokenOf(R"({"access":[{"collection":"a","access":"r"},{"collection":"b","access":"rw"}]})"));
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_TRUE(some->principal.MayUse(kRead, "a"));
  EXPECT_FALSE(some->principal.MayUse(kWrite, "a"));
  EXPECT_TRUE(some->principal.MayUse(kRead | kWrite | kIndex, "b"));
  EXPECT_FALSE(some->principal.MayUse(kOperate, "b"));
  EXPECT_FALSE(some->principal.MayUse(kRead, "c"));
}

TEST(Token, AccessToThePointsOfACollectionMakesNoIndexes) {
  const auto points = Verify(TokenOf(R"({"access":[{"collection":"a","access":"prw"}]})"));
  ASSERT_TRUE(points.ok()) << points.status();
  EXPECT_TRUE(points->principal.MayUse(kRead | kWrite, "a"));
  EXPECT_FALSE(points->principal.MayUse(kIndex, "a"));
  EXPECT_FALSE(points->principal.MayUse(kRead, "b"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":[{"collection":"a","access":"w"}]})")), HasSubstr("prw"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"prw"})")), HasSubstr("'access'"));
}

TEST(Token, WhatIsNotSignedOrNotUnderstoodIsRefused) {
  EXPECT_THAT(Refused(TokenOf(R"({"access":"m"})", "another secret, that nobody here knows")), HasSubstr("signature"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"m"})", kSecret, R"({"alg":"none"})")), HasSubstr("HS256"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"m"})", kSecret, R"({"alg":"HS256","crit":["exp"]})")), HasSubstr("crit"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"m","sub":"a\nb"})")), HasSubstr("'sub' is no line of text"));
  std::string changed = TokenOf(R"({"access":"r"})");
  changed.replace(changed.find('.') + 1, EncodedPart(R"({"access":"r"})").size(), EncodedPart(R"({"access":"m"})"));
  EXPECT_THAT(Refused(changed), HasSubstr("signature"));
  EXPECT_THAT(Refused(TokenOf("{}")), HasSubstr("'access'"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"x"})")), HasSubstr("'access'"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":[{"collection":"a","access":"r","payload":{}}]})")), HasSubstr("'access'"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":[{"collection":"*","access":"r"}]})")), HasSubstr("no name"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"r","value_exists":{}})")), HasSubstr("value_exists"));
  EXPECT_THAT(Refused(TokenOf(R"({"access":"r","exp":"soon"})")), HasSubstr("'exp'"));
  EXPECT_THAT(Refused("ey.."), HasSubstr("signature"));
}

TEST(Token, SecretsAreOneOrTwoLongLines) {
  EXPECT_EQ(ParseSecrets(kSecret + "\n" + kSecret + "2\n")->size(), 2u);
  EXPECT_THAT(MessageOf(ParseSecrets("short\n").status()), HasSubstr("line 1"));
  EXPECT_FALSE(ParseSecrets("").ok());
}

}  // namespace
}  // namespace lightcone::server::auth
