#include "base/work_pool.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

std::shared_ptr<WorkPool> PoolOf(int threads) {
  return std::make_shared<WorkPool>(threads, [] {});
}

bool Comes(const std::function<bool()>& condition) {
  for (const absl::Time give_up = absl::Now() + absl::Minutes(1); absl::Now() < give_up; std::this_thread::yield()) {
    if (condition()) return true;
  }
  return false;
}

TEST(WorkPool, WorkThatIsAlwaysDueKeepsNoOtherFromItsTurn) {
  const auto pool = PoolOf(1);
  std::atomic<int> greedy_steps = 0, other_steps = 0;
  RecurringWork greedy(pool, [&] {
    ++greedy_steps;
    return absl::ZeroDuration();
  });
  RecurringWork other(pool, [&] { return ++other_steps < 50 ? absl::ZeroDuration() : absl::InfiniteDuration(); });
  EXPECT_TRUE(Comes([&] { return other_steps == 50; }));
  EXPECT_GE(greedy_steps, 40) << "they take turns";
}

TEST(WorkPool, AStepWaitsAsLongAsTheLastOneSaidUnlessItIsWoken) {
  const auto pool = PoolOf(2);
  std::atomic<int> steps = 0;
  const absl::Time begun = absl::Now();
  RecurringWork work(pool, [&] { return ++steps == 1 ? absl::Milliseconds(50) : absl::InfiniteDuration(); });
  EXPECT_TRUE(Comes([&] { return steps == 2; }));
  EXPECT_GE(absl::Now() - begun, absl::Milliseconds(50));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(steps, 2);
  work.Wake();
  EXPECT_TRUE(Comes([&] { return steps == 3; }));
}

TEST(WorkPool, WakingARunningStepBringsAnotherOne) {
  const auto pool = PoolOf(4);
  absl::Notification begun, woken;
  std::atomic<int> steps = 0, running = 0;
  std::atomic<bool> overlapped = false;
  RecurringWork work(pool, [&] {
    if (++running > 1) overlapped = true;
    if (++steps == 1) {
      begun.Notify();
      woken.WaitForNotification();
    }
    --running;
    return absl::InfiniteDuration();
  });
  begun.WaitForNotification();
  for (int i = 0; i < 10; ++i) work.Wake();
  woken.Notify();
  EXPECT_TRUE(Comes([&] { return steps == 2; }));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(steps, 2);
  EXPECT_FALSE(overlapped);
}

TEST(WorkPool, TheEndOfAWorkWaitsForItsStep) {
  const auto pool = PoolOf(2);
  absl::Notification begun;
  std::atomic<bool> ended = false;
  std::optional<RecurringWork> work;
  work.emplace(pool, [&] {
    begun.Notify();
    absl::SleepFor(absl::Milliseconds(50));
    ended = true;
    return absl::ZeroDuration();
  });
  begun.WaitForNotification();
  work.reset();
  EXPECT_TRUE(ended);
}

TEST(WorkPool, ItRunsAsManyStepsAtATimeAsItHasThreads) {
  const auto pool = PoolOf(3);
  std::atomic<int> running = 0, most = 0;
  std::vector<std::unique_ptr<RecurringWork>> works;
  for (int i = 0; i < 20; ++i) {
    works.push_back(std::make_unique<RecurringWork>(pool, [&] {
      const int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      absl::SleepFor(absl::Milliseconds(1));
      --running;
      return absl::ZeroDuration();
    }));
  }
  EXPECT_TRUE(Comes([&] { return most == 3; }));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(most, 3);
}

}  // namespace
}  // namespace lightcone
