#include "base/work_pool.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

thread_local bool no_memory = false;  // whether allocations of the thread fail

}  // namespace
}  // namespace lightcone

// Every allocation of the program comes here, so that one thread can be without memory. Not inlined: GCC 12 takes a
// new beside a free for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = lightcone::no_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return lightcone::no_memory ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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

// Steps of a work that stay within a long step until they are let go.
class HeldInALongStep {
 public:
  explicit HeldInALongStep(std::shared_ptr<WorkPool> pool)
      : work_(std::move(pool), [this] {
          const WorkPool::LongStep long_step;
          const WorkPool::LongStep within;
          granted_ = long_step.granted() && within.granted();
          begun_.Notify();
          go_on_.WaitForNotification();
          return absl::InfiniteDuration();
        }) {}
  ~HeldInALongStep() { go_on_.Notify(); }

  // Waits until the step has begun.
  bool granted() {
    EXPECT_TRUE(begun_.WaitForNotificationWithTimeout(absl::Minutes(1)));
    return granted_;
  }

 private:
  absl::Notification begun_, go_on_;
  std::atomic<bool> granted_ = false;
  RecurringWork work_;
};

TEST(WorkPool, LongStepsLeaveEveryThreadToTheStepsOfOthers) {
  const auto pool = PoolOf(2);
  HeldInALongStep first(pool), second(pool);
  EXPECT_TRUE(first.granted());
  EXPECT_TRUE(second.granted());
  std::atomic<int> steps = 0;
  RecurringWork other(pool, [&] { return ++steps < 50 ? absl::ZeroDuration() : absl::InfiniteDuration(); });
  EXPECT_TRUE(Comes([&] { return steps == 50; }));
  HeldInALongStep third(pool);
  EXPECT_FALSE(third.granted()) << "threads are bounded";
  other.Wake();
  EXPECT_TRUE(Comes([&] { return steps == 51; })) << "the third holds one of two threads";
}

TEST(WorkPool, ThreadsThatALongStepBroughtAddNoStepsOnceItIsOver) {
  const auto pool = PoolOf(1);
  std::atomic<int> steps = 0, running = 0;
  std::atomic<bool> overlapped = false;
  const auto step = [&] {
    if (++running > 1) overlapped = true;
    std::this_thread::yield();
    --running;
    return ++steps < 2'000 ? absl::ZeroDuration() : absl::InfiniteDuration();
  };
  auto held = std::make_unique<HeldInALongStep>(pool);
  EXPECT_TRUE(held->granted());
  std::atomic<bool> ran = false;
  RecurringWork other(pool, [&] {
    ran = true;
    return absl::InfiniteDuration();
  });
  EXPECT_TRUE(Comes([&] { return ran.load(); }));
  held.reset();
  RecurringWork first(pool, step), second(pool, step);
  EXPECT_TRUE(Comes([&] { return steps >= 2'000; }));
  EXPECT_FALSE(overlapped);
}

TEST(WorkPool, OutsideItsStepsALongStepChangesNothing) {
  const WorkPool::LongStep long_step;
  EXPECT_TRUE(long_step.granted());
}

TEST(WorkPool, StepsAndWakesTakeNoMemory) {
  const auto pool = PoolOf(2);
  std::atomic<int> steps = 0;
  RecurringWork work(pool, [&] {
    no_memory = true;  // for good: the thread enters the next turn into the queue later
    return ++steps % 3 == 0 ? absl::InfiniteDuration() : absl::ZeroDuration();
  });
  EXPECT_TRUE(Comes([&] { return steps == 3; }));
  no_memory = true;
  work.Wake();
  no_memory = false;
  EXPECT_TRUE(Comes([&] { return steps == 6; }));
}

}  // namespace
}  // namespace lightcone
