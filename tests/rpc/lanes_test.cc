// Which calls a lane begins, and which it refuses: by a simulated clock, and with threads that a latch holds.
#include "server/rpc/lanes.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/retry_after.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr WaitBounds kBounds{absl::Milliseconds(500), absl::Milliseconds(10)};

// Eight threads, on which each call takes 8 ms: 1,000 calls a second.
class Machine {
 public:
  static constexpr absl::Duration kTick = absl::Microseconds(100);
  static constexpr absl::Duration kCall = absl::Milliseconds(8);

  // Begins `offered` calls; each has so much time from now on.
  void Offer(int offered, absl::Duration time = absl::InfiniteDuration()) {
    for (int i = 0; i < offered; ++i) {
      if (std::any_of(std::begin(free_at_), std::end(free_at_), [&](absl::Time at) { return at <= now_; }) &&
          queue_.empty()) {
        admission_.NoteDirect();
      } else if (admission_.Offer(now_, now_ + time, static_cast<int64_t>(queue_.size()))) {
        ++refused_;
        continue;
      }
      queue_.push_back({now_, now_ + time});
      Begin();
    }
  }
  void Tick() {
    now_ += kTick;
    Begin();
  }
  void Forget() {
    waits_.clear();
    refused_ = given_up_ = 0;
  }
  absl::Duration LongestWait() const {
    return waits_.empty() ? absl::ZeroDuration() : *std::max_element(waits_.begin(), waits_.end());
  }
  bool overloaded() const { return admission_.Overloaded(now_); }
  size_t waiting() const { return queue_.size(); }
  size_t begun() const { return waits_.size(); }
  int refused() const { return refused_; }
  int given_up() const { return given_up_; }

 private:
  struct Call {
    absl::Time since, deadline;
  };

  void Begin() {
    for (absl::Time& free_at : free_at_) {
      while (free_at <= now_ && !queue_.empty()) {
        const Call next = queue_.front();
        queue_.pop_front();
        if (admission_.Take(now_, next.since, next.deadline)) {
          ++given_up_;
          continue;
        }
        waits_.push_back(now_ - next.since);
        admission_.NoteEnd(kCall);
        free_at = now_ + kCall;
      }
    }
  }

  Admission admission_{8, kBounds};
  absl::Time now_ = absl::UnixEpoch();
  absl::Time free_at_[8] = {};
  std::deque<Call> queue_;
  std::vector<absl::Duration> waits_;
  int refused_ = 0, given_up_ = 0;
};

TEST(Admission, ClientsThatEachWaitForAnAnswerMakeNoOverload) {
  Machine machine;
  machine.Offer(100);
  size_t begun = machine.begun();
  for (int tick = 0; tick < 20'000; ++tick) {
    machine.Tick();
    const size_t ended = machine.begun() - begun;  // as many as began in their places
    begun = machine.begun();
    machine.Offer(static_cast<int>(ended));
  }
  EXPECT_FALSE(machine.overloaded());
  EXPECT_EQ(machine.refused() + machine.given_up(), 0);
  EXPECT_GT(machine.begun(), 1'900u);
}

TEST(Admission, ABurstThatEndsIsBegunAsAWhole) {
  Machine machine;
  machine.Offer(400);
  for (int tick = 0; tick < 5'000; ++tick) machine.Tick();
  EXPECT_EQ(machine.refused() + machine.given_up(), 0);
  EXPECT_EQ(machine.begun(), 400u);
}

TEST(Admission, FourTimesAsManyCallsAsAreDoneWaitShortlyAndKeepEveryThreadBusy) {
  Machine machine;
  const auto run = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      if (tick % 5 == 0) machine.Offer(2);  // 4,000 a second
      machine.Tick();
    }
  };
  run(2'000);
  EXPECT_TRUE(machine.overloaded());
  machine.Forget();
  run(50'000);
  EXPECT_LE(machine.LongestWait(), 2 * kBounds.overload_wait_max);
  EXPECT_GE(machine.begun(), 4'900u) << "of 5,000 that five seconds have room for";
  EXPECT_GT(machine.refused(), 14'000);
  EXPECT_EQ(machine.given_up(), 0) << "who is refused is told so at once";
}

TEST(Admission, ASlowGrowthReachesTheWideBoundOnceAndTheTightOneHoldsFromThenOn) {
  Machine machine;
  const auto run = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      if (tick % 9 == 0) machine.Offer(1);  // 1,111 a second
      machine.Tick();
    }
  };
  run(100'000);
  EXPECT_TRUE(machine.overloaded());
  machine.Forget();
  run(100'000);
  EXPECT_LE(machine.LongestWait(), 2 * kBounds.overload_wait_max);
  EXPECT_GE(machine.begun(), 9'900u);
}

TEST(Admission, OverloadEndsASecondAfterTheLastRefusal) {
  Machine machine;
  for (int tick = 0; tick < 2'000; ++tick) {
    machine.Offer(1);
    machine.Tick();
  }
  ASSERT_TRUE(machine.overloaded());
  for (int tick = 0; tick < 9'900; ++tick) machine.Tick();
  EXPECT_TRUE(machine.overloaded());
  for (int tick = 0; tick < 200; ++tick) machine.Tick();
  EXPECT_FALSE(machine.overloaded());
  EXPECT_EQ(machine.waiting(), 0u);
}

TEST(Admission, AClockThatGoesBackEndsOverloadAndDoesNotProlongIt) {
  Admission admission(1, kBounds);
  const absl::Time now = absl::UnixEpoch() + absl::Hours(24);
  admission.NoteEnd(absl::Milliseconds(100));
  ASSERT_TRUE(admission.Offer(now, absl::InfiniteFuture(), /*waiting=*/100).has_value());
  EXPECT_TRUE(admission.Overloaded(now));
  EXPECT_FALSE(admission.Overloaded(now - absl::Hours(1)));
}

TEST(Admission, ACallWhoseDeadlineComesBeforeItsTurnIsRefusedAtOnce) {
  Machine machine;
  machine.Offer(8);
  machine.Offer(20);
  const size_t waiting = machine.waiting();
  machine.Offer(1, absl::Milliseconds(15));  // its turn comes after 21 ms
  EXPECT_EQ(machine.refused(), 1);
  EXPECT_EQ(machine.waiting(), waiting);
  machine.Offer(1, absl::Milliseconds(30));
  EXPECT_EQ(machine.refused(), 1);
}

TEST(Admission, CallsThatTakeLongMayWaitForOneCallEach) {
  Admission admission(2, kBounds);
  admission.NoteEnd(absl::Seconds(5));
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(admission.Offer(now, absl::InfiniteFuture(), 0), std::nullopt);
  EXPECT_EQ(admission.Offer(now, absl::InfiniteFuture(), 1), std::nullopt);
  EXPECT_EQ(admission.Offer(now, absl::InfiniteFuture(), 2), Refusal::kWait);
}

// One thread, which Hold keeps busy until Release, and a clock that stands.
class LaneTest : public testing::Test {
 protected:
  void Make(const LaneOptions& options) {
    lane_ = std::make_unique<Lane>("test", options, [this] { return absl::FromUnixMillis(now_ms_.load()); });
  }
  ~LaneTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    lane_ = nullptr;
  }
  void Hold() {
    absl::Notification held;
    lane_->Submit({[&](const absl::Status&) {
      held.Notify();
      release_.WaitForNotification();
    }});
    held.WaitForNotification();
  }
  void Submit(const std::string& name, absl::Time deadline = absl::InfiniteFuture(), bool urgent = false) {
    lane_->Submit({[this, name](const absl::Status& admitted) {
                     absl::MutexLock lock(&mutex_);
                     ends_.push_back(StrCat(name, " ", absl::StatusCodeToString(admitted.code())));
                     last_ = admitted;
                     last_thread_ = std::this_thread::get_id();
                   },
                   deadline, urgent});
  }
  void ReleaseAndStop() {
    release_.Notify();
    lane_->Stop();
  }
  // Makes the lane know that a call takes so long.
  void Learn(absl::Duration call) {
    absl::Notification ended;
    lane_->Submit({[&](const absl::Status&) {
      now_ms_ += absl::ToInt64Milliseconds(call);
      ended.Notify();
    }});
    ended.WaitForNotification();
    while (lane_->Stats().running != 0) std::this_thread::yield();
  }
  uint64_t Refused(Refusal refusal) const { return lane_->Stats().refused[static_cast<size_t>(refusal)]; }
  absl::Time Now() const { return absl::FromUnixMillis(now_ms_.load()); }

  std::atomic<int64_t> now_ms_{1'000'000};
  absl::Notification release_;
  absl::Mutex mutex_;
  std::vector<std::string> ends_;
  absl::Status last_;
  std::thread::id last_thread_;
  std::unique_ptr<Lane> lane_;
};

TEST_F(LaneTest, ExpiredJobsAreAnsweredFirstAndLeaveTheirPlaceToOthers) {
  Make({1, 1});
  Hold();
  Submit("early", Now() + absl::Milliseconds(10));
  Submit("refused");
  EXPECT_THAT(ends_, ElementsAre("refused RESOURCE_EXHAUSTED"));
  now_ms_ += 20;
  Submit("late");
  EXPECT_THAT(ends_, ElementsAre("refused RESOURCE_EXHAUSTED", "early DEADLINE_EXCEEDED"));
  Submit("over", Now());
  ReleaseAndStop();
  EXPECT_THAT(
      ends_, ElementsAre("refused RESOURCE_EXHAUSTED", "early DEADLINE_EXCEEDED", "over DEADLINE_EXCEEDED", "late OK"));
  EXPECT_EQ(Refused(Refusal::kExpired), 2u);
  EXPECT_EQ(Refused(Refusal::kQueueFull), 1u);
  EXPECT_EQ(lane_->Stats().rejected_total, 1u);
}

TEST_F(LaneTest, JobsWhoseDeadlinePassesInTheQueueAreNotBegun) {
  Make({1, 10});
  Hold();
  Submit("a", Now() + absl::Milliseconds(10));
  Submit("b");
  now_ms_ += 20;
  ReleaseAndStop();
  EXPECT_THAT(ends_, ElementsAre("a DEADLINE_EXCEEDED", "b OK"));
}

TEST_F(LaneTest, UrgentJobsBeginBeforeOthersAndFindAPlaceInAFullQueue) {
  Make({1, 2});
  Hold();
  Submit("a");
  Submit("b");
  Submit("c");
  Submit("mend", absl::InfiniteFuture(), true);
  ReleaseAndStop();
  EXPECT_THAT(ends_, ElementsAre("c RESOURCE_EXHAUSTED", "mend OK", "a OK", "b OK"));
}

TEST_F(LaneTest, AJobThatWouldWaitTooLongIsRefusedByTheThreadThatBringsItWithTheTimeToRetry) {
  Make({1, 1'000, 0, {absl::Milliseconds(1'500), absl::Milliseconds(10)}});
  Learn(absl::Seconds(1));
  Hold();
  Submit("a");
  Submit("b");
  EXPECT_THAT(ends_, ElementsAre("b RESOURCE_EXHAUSTED"));
  EXPECT_EQ(last_thread_, std::this_thread::get_id());
  EXPECT_EQ(RetryAfterOf(last_), absl::Seconds(2));
  EXPECT_THAT(MessageOf(last_), HasSubstr("1 calls wait in the test queue, where a call would wait about 2000 ms; "
                                          "allowed: 1000 ms"));
  EXPECT_EQ(Refused(Refusal::kWait), 1u);
  EXPECT_TRUE(lane_->Stats().overloaded);
  Submit("c", Now() + absl::Milliseconds(500));
  ReleaseAndStop();
  EXPECT_THAT(ends_, ElementsAre("b RESOURCE_EXHAUSTED", "c RESOURCE_EXHAUSTED", "a OK"));
}

TEST_F(LaneTest, UnderOverloadJobsThatWaitedTooLongOrEndTooLateAreNotBegun) {
  Make({1, 1'000, 0, {absl::Milliseconds(3'500), absl::Milliseconds(10)}});
  Learn(absl::Seconds(1));
  Hold();
  Submit("old");
  now_ms_ += 2'500;
  Submit("hopeless", Now() + absl::Milliseconds(2'200));
  now_ms_ += 1'500;
  Submit("new");
  Submit("refused");
  ASSERT_TRUE(lane_->Stats().overloaded);
  ReleaseAndStop();
  EXPECT_THAT(ends_, ElementsAre("refused RESOURCE_EXHAUSTED", "old RESOURCE_EXHAUSTED", "hopeless RESOURCE_EXHAUSTED",
                                 "new OK"));
}

TEST_F(LaneTest, WaitsOfBegunJobsAreCounted) {
  Make({1, 10});
  Hold();
  Submit("a");
  now_ms_ += 2;
  Submit("b");
  now_ms_ += 100'000;
  ReleaseAndStop();
  const LaneStats stats = lane_->Stats();
  EXPECT_EQ(stats.begun, 3u);
  EXPECT_EQ(stats.waits[0], 1u);  // the one that holds the thread
  EXPECT_NEAR(stats.wait_seconds_sum, 200.002, 1e-6);
}

TEST_F(LaneTest, AStoppedLaneSaysSo) {
  Make({1, 10});
  lane_->Stop();
  Submit("a");
  EXPECT_THAT(ends_, ElementsAre("a UNAVAILABLE"));
}

}  // namespace
}  // namespace lightcone::server
