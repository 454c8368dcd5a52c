// Limits of callers, on a clock that the test turns: what passes, what is refused, and until when.
#include "server/auth/quota.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/retry_after.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/auth/key_file.h"
#include "server/auth/keyring.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server::auth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;

MATCHER_P2(IsExhausted, text, after, "") {
  *result_listener << arg.ToString();
  return absl::IsResourceExhausted(arg) && MessageOf(arg).find(text) != std::string::npos && RetryAfterOf(arg) == after;
}

TEST(RateBucket, BringsOneSecondsUnitsAtOnceAndThenOneByOne) {
  RateBucket bucket;
  bucket.SetRate(3, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.WaitFor(1, 0), 0) << i;
    bucket.Take(1, 0);
  }
  EXPECT_EQ(bucket.WaitFor(1, 0), 333'333'334);
  EXPECT_EQ(bucket.WaitFor(1, 333'333'333), 1);
  EXPECT_EQ(bucket.WaitFor(1, 333'333'334), 0);
  // Thousands of units come exactly, whatever the steps of the clock are.
  bucket.Take(1, 333'333'334);
  int64_t taken = 0;
  for (int64_t now = 333'333'334; now <= 1'000 * kSecondNs; now += 77'777'777) {
    if (bucket.WaitFor(1, now) > 0) continue;
    bucket.Take(1, now);
    ++taken;
  }
  EXPECT_THAT(taken, testing::AllOf(testing::Ge(2'997), testing::Le(3'000)));
}

TEST(RateBucket, IsNeverFullerThanOneSecond) {
  RateBucket bucket;
  bucket.SetRate(RateBucket::kRateMax, 0);
  bucket.Take(RateBucket::kRateMax, 1'000'000 * kSecondNs);
  EXPECT_EQ(bucket.WaitFor(1, 1'000'000 * kSecondNs), 1);
  bucket.Return(2 * RateBucket::kRateMax, 1'000'000 * kSecondNs);
  EXPECT_EQ(bucket.WaitFor(RateBucket::kRateMax, 1'000'000 * kSecondNs), 0);
  bucket.Take(RateBucket::kRateMax, 1'000'000 * kSecondNs);
  EXPECT_GT(bucket.WaitFor(1, 1'000'000 * kSecondNs), 0);
}

TEST(RateBucket, MoreThanASecondBringsPassesWhereAnythingIsLeftAndIsOwed) {
  RateBucket bucket;
  bucket.SetRate(10, 0);
  bucket.Take(10, 0);
  EXPECT_EQ(bucket.WaitFor(25, 0), 1);
  EXPECT_EQ(bucket.WaitFor(25, kSecondNs / 10), 0);
  bucket.Take(25, kSecondNs / 10);
  EXPECT_EQ(bucket.WaitFor(1, kSecondNs / 10), 2'500'000'000);
  // What is owed has a bound, so that no sum overflows.
  for (int i = 0; i < 10; ++i) bucket.Take(INT64_MAX, kSecondNs);
  EXPECT_EQ(bucket.WaitFor(10, kSecondNs), (RateBucket::kRateMax + 10) * kSecondNs / 10);
}

TEST(RateBucket, AnotherRateGivesNothingBack) {
  RateBucket bucket;
  EXPECT_EQ(bucket.WaitFor(1'000, 0), 0) << "no limit";
  bucket.SetRate(10, 0);
  bucket.Take(10, 0);
  bucket.SetRate(20, 0);
  EXPECT_EQ(bucket.WaitFor(1, 0), kSecondNs / 20);
  EXPECT_EQ(bucket.WaitFor(20, kSecondNs), 0);
  bucket.SetRate(2, kSecondNs);
  bucket.Take(2, kSecondNs);
  EXPECT_EQ(bucket.WaitFor(1, kSecondNs), kSecondNs / 2);
}

class QuotaTest : public testing::Test {
 protected:
  std::shared_ptr<std::atomic<int64_t>> now_ns_ = std::make_shared<std::atomic<int64_t>>(kSecondNs);
  QuotaPtr quota_ = std::make_shared<Quota>("key 'search'", [now = now_ns_] { return now->load(); });
};

TEST_F(QuotaTest, ARefusalNamesKeyLimitAndValueAndSaysWhenToComeAgain) {
  quota_->SetLimits({.calls_per_second = 2});
  EXPECT_TRUE(CallSlot::Take(quota_).ok());
  EXPECT_TRUE(CallSlot::Take(quota_).ok());
  const absl::Status refused = CallSlot::Take(quota_).status();
  EXPECT_THAT(refused, IsExhausted("key 'search' has used up its calls_per_second; allowed: 2 calls a second",
                                   absl::Milliseconds(500)));
  *now_ns_ += absl::ToInt64Nanoseconds(*RetryAfterOf(refused)) - 1;
  EXPECT_THAT(CallSlot::Take(quota_).status(), IsExhausted("calls_per_second", absl::Microseconds(1)));
  *now_ns_ += 1;
  EXPECT_TRUE(quota_->CheckCall().ok());
  EXPECT_TRUE(CallSlot::Take(quota_).ok()) << "the check took nothing";
  EXPECT_THAT(quota_->figures().refused_total, ElementsAre(2, 0, 0, 0));
}

TEST_F(QuotaTest, ASlotIsGivenBackOnceHoweverItEnds) {
  quota_->SetLimits({.calls_in_flight_max = 2});
  {
    CallSlot first = CallSlot::Take(quota_).value();
    CallSlot second = CallSlot::Take(quota_).value();
    EXPECT_THAT(CallSlot::Take(quota_).status(),
                IsExhausted("its calls_in_flight_max; allowed: 2 calls in flight", absl::Milliseconds(50)));
    first.Release();
    first.Release();
    EXPECT_EQ(quota_->figures().in_flight, 1);
    first = std::move(second);
    EXPECT_EQ(quota_->figures().in_flight, 1);
    first = CallSlot::Take(quota_).value();
    EXPECT_EQ(quota_->figures().in_flight, 1) << "the slot that is replaced is given back";
  }
  EXPECT_EQ(quota_->figures().in_flight, 0);
  EXPECT_TRUE(CallSlot::Take(nullptr).ok()) << "no limits";
}

TEST_F(QuotaTest, RowsAndBytesAreTakenTogetherOrNotAtAll) {
  quota_->SetLimits({.rows_per_second = 100, .bytes_per_second = 2'000});
  EXPECT_TRUE(quota_->TakeRows(10, 1'500).ok());
  EXPECT_THAT(quota_->TakeRows(10, 1'000),
              IsExhausted("its bytes_per_second; allowed: 2000 bytes a second", absl::Milliseconds(250)));
  EXPECT_TRUE(quota_->TakeRows(90, 500).ok()) << "the refused write took no rows";
  EXPECT_THAT(quota_->TakeRows(1, 0), IsExhausted("its rows_per_second; allowed: 100 rows", absl::Milliseconds(10)));
  quota_->ReturnRows(90, 500);
  EXPECT_TRUE(quota_->TakeRows(90, 500).ok());
}

TEST_F(QuotaTest, AMeterLetsAReadAnswerAndHoldsUpTheNextOne) {
  const std::shared_ptr<CallMeter> meter = MeterOf(quota_);
  quota_->SetLimits({.rows_per_second = 10});
  ASSERT_TRUE(meter->BeginRead().ok());
  meter->CountRead(30, 0);
  EXPECT_THAT(MeterOf(quota_)->BeginRead(), IsExhausted("rows_per_second", absl::Milliseconds(2'100)));
  EXPECT_THAT(meter->TakeWrite(1, 1), IsExhausted("rows_per_second", absl::Milliseconds(2'100)));
  *now_ns_ += 2'100'000'000;
  EXPECT_TRUE(meter->BeginRead().ok());
  EXPECT_EQ(MeterOf(nullptr), nullptr);
}

TEST_F(QuotaTest, WhatACallHasBegunIsNotRefusedHalfWay) {
  quota_->SetLimits({.rows_per_second = 10});
  const std::shared_ptr<CallMeter> call = MeterOf(quota_), other = MeterOf(quota_);
  ASSERT_TRUE(call->BeginRead().ok());
  call->CountRead(30, 0);
  EXPECT_TRUE(call->BeginRead().ok()) << "the second search of a batch";
  EXPECT_FALSE(other->BeginRead().ok());
  *now_ns_ += 3 * kSecondNs;
  ASSERT_TRUE(call->TakeWrite(10, 0).ok());
  EXPECT_TRUE(call->TakeWrite(10, 0).ok()) << "the second part of a write";
  EXPECT_THAT(other->TakeWrite(1, 0), IsExhausted("rows_per_second", absl::Milliseconds(1'100))) << "all of it is owed";
}

TEST_F(QuotaTest, AWriteThatTheServerRefusesTakesNothingFromItsKey) {
  EXPECT_EQ(MakeWriteQuota(0, 0), nullptr);
  quota_->SetLimits({.rows_per_second = 100});
  const QuotaPtr writes = MakeWriteQuota(10, 0, [now = now_ns_] { return now->load(); });
  const std::shared_ptr<CallMeter> limited = MeterOf(quota_, writes), other = MeterOf(nullptr, writes);
  EXPECT_TRUE(other->TakeWrite(10, 1).ok());
  EXPECT_THAT(limited->TakeWrite(10, 1), IsExhausted("the server has used up its limits.write_rows_per_second; "
                                                     "allowed: 10 rows a second",
                                                     absl::Seconds(1)));
  EXPECT_TRUE(quota_->TakeRows(100, 0).ok());
  // Reads are nobody's writes.
  EXPECT_TRUE(other->BeginRead().ok());
  other->CountRead(1'000, 1'000);
  *now_ns_ += kSecondNs;
  EXPECT_TRUE(other->TakeWrite(10, 1).ok());
}

TEST_F(QuotaTest, ThreadsTogetherGetNoCallTooManyAndNoneTooFew) {
  quota_->SetLimits({.calls_per_second = 1'000, .rows_per_second = 5'000});
  std::atomic<int> calls{0};
  std::atomic<int64_t> rows{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i) {
        calls += CallSlot::Take(quota_).ok() ? 1 : 0;
        rows += quota_->TakeRows(3, 0).ok() ? 3 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 1'000);
  EXPECT_EQ(rows, 4'998);
  EXPECT_EQ(quota_->figures().in_flight, 0);
}

KeyEntry Limited(const std::string& name, const std::string& key, const CallLimits& limits) {
  KeyEntry entry;
  entry.name = name;
  entry.hash = HashOf(key);
  entry.grant = {kRead, {"*"}};
  entry.limits = limits;
  return entry;
}

TEST(KeyFileLimits, ALineGivesItsLimitsBackAndHasNoneWhereItNamesNone) {
  const CallLimits limits = {1, 100'000, 1'000'000'000, 1'024};
  const auto back = ParseKeys(LineOf(Limited("a", "1", limits)) + "\n" + LineOf(Limited("b", "2", {})));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)[0].limits, limits);
  EXPECT_FALSE((*back)[1].limits.any());
  EXPECT_THAT(LineOf((*back)[1]), testing::Not(HasSubstr("_per_second")));
}

TEST(KeyFileLimits, ErrorsNameTheFieldTheValueAndTheRange) {
  const auto error = [](const std::string& field) {
    const std::string line = R"({"name":"a","certificate":"c","scopes":["read"],)" + field + "}";
    const absl::Status status = ParseKeys(line).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    return std::string(MessageOf(status));
  };
  EXPECT_THAT(error(R"("calls_per_second":0)"),
              HasSubstr("line 1: field 'calls_per_second' is 0; allowed: 1 .. 1000000 calls a second"));
  EXPECT_THAT(error(R"("calls_in_flight_max":-1)"), HasSubstr("is -1; allowed: 1 .. 100000 calls in flight"));
  EXPECT_THAT(error(R"("rows_per_second":1000000001)"), HasSubstr("is 1000000001; allowed: 1 .. 1000000000 rows"));
  EXPECT_THAT(error(R"("bytes_per_second":1023)"), HasSubstr("is 1023; allowed: 1024 .. 4000000000 bytes a second"));
  for (const char* value : {"1.5", "\"10\"", "null", "true", "18446744073709551615", "[1]"}) {
    EXPECT_THAT(error(StrCat("\"rows_per_second\":", value)), HasSubstr("field 'rows_per_second' is")) << value;
  }
  EXPECT_THAT(error(R"("rows_per_minute":1)"), HasSubstr("'rows_per_minute'"));
}

TEST(KeyFileLimits, BothLinesOfANameHaveTheSame) {
  const std::string first = LineOf(Limited("a", "1", {.calls_per_second = 5})) + "\n";
  EXPECT_TRUE(ParseKeys(first + LineOf(Limited("a", "2", {.calls_per_second = 5}))).ok());
  EXPECT_THAT(MessageOf(ParseKeys(first + LineOf(Limited("a", "2", {.calls_per_second = 6}))).status()),
              HasSubstr("line 2: the limits of 'a' differ"));
}

class KeyringLimits : public testing::Test {
 protected:
  void Write(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(folder_ / "keys", text).ok()); }
  QuotaPtr QuotaOf(const std::string& key) { return keys_->LookUp(CredentialOf(key)).value()->quota; }

  void Open(const std::string& text) {
    Write(text);
    auto keys = Keyring::Open({.keys_file = folder_ / "keys", .steady_clock = [this] { return now_ns_.load(); }});
    ASSERT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
  }

  TemporaryFolder folder_;
  std::atomic<int64_t> now_ns_{kSecondNs};
  std::unique_ptr<Keyring> keys_;
};

TEST_F(KeyringLimits, AReloadKeepsWhatWasTakenAndBothKeysOfANameShareIt) {
  const std::string one = LineOf(Limited("a", "one", {.calls_per_second = 2, .calls_in_flight_max = 3})) + "\n";
  Open(one + LineOf(Limited("free", "other", {})));
  EXPECT_TRUE(CallSlot::Take(QuotaOf("other")).ok());
  EXPECT_EQ(keys_->figures().limited.size(), 1u) << "the other key has no limits";
  const CallSlot held = CallSlot::Take(QuotaOf("one")).value();
  ASSERT_TRUE(CallSlot::Take(QuotaOf("one")).ok());
  Write(one + LineOf(Limited("a", "two", {.calls_per_second = 2, .calls_in_flight_max = 3})));
  ASSERT_TRUE(keys_->Reload().ok());
  for (const char* key : {"one", "two"}) {
    EXPECT_THAT(CallSlot::Take(QuotaOf(key)).status(), IsExhausted("key 'a'", absl::Milliseconds(500))) << key;
  }
  // New limits hold at once, for calls that began under the old ones as well.
  Write(LineOf(Limited("a", "two", {.calls_in_flight_max = 1})));
  ASSERT_TRUE(keys_->Reload().ok());
  EXPECT_THAT(CallSlot::Take(QuotaOf("two")).status(), IsExhausted("calls_in_flight_max", absl::Milliseconds(50)));
  ASSERT_EQ(keys_->figures().limited.size(), 1u);
  EXPECT_EQ(keys_->figures().limited[0].name, "a");
  EXPECT_THAT(keys_->figures().limited[0].figures.refused_total, ElementsAre(2, 1, 0, 0));
}

TEST_F(KeyringLimits, ABadLimitLeavesTheLastGoodFile) {
  Open(LineOf(Limited("a", "one", {.calls_per_second = 1})));
  Write(R"({"name":"a","certificate":"c","scopes":["read"],"calls_per_second":2000000})");
  EXPECT_THAT(MessageOf(keys_->Reload()), HasSubstr("field 'calls_per_second' is 2000000"));
  ASSERT_TRUE(CallSlot::Take(QuotaOf("one")).ok());
  EXPECT_FALSE(CallSlot::Take(QuotaOf("one")).ok());
}

}  // namespace
}  // namespace lightcone::server::auth
