#include "base/forward_clock.h"

#include "gtest/gtest.h"

namespace lightcone {
namespace {

TEST(ForwardClock, FollowsTheWallClockAheadAndTheSteadyOneWhereThatGoesBack) {
  int64_t wall_ms = 1'000'000;
  absl::Duration steady = absl::Seconds(7);
  ForwardClock clock({[&] { return absl::FromUnixMillis(wall_ms); }, [&] { return steady; }});
  EXPECT_EQ(clock.NowMs(), 1'000'000);
  wall_ms += 500, steady += absl::Milliseconds(500);
  EXPECT_EQ(clock.NowMs(), 1'000'500);
  wall_ms -= 86'400'000;
  EXPECT_EQ(clock.NowMs(), 1'000'500);
  for (int i = 0; i < 10; ++i) {
    steady += absl::Microseconds(300);
    clock.NowMs();
  }
  EXPECT_EQ(clock.NowMs(), 1'000'503) << "parts of a millisecond add up";
  wall_ms += 2 * 86'400'000;
  EXPECT_EQ(clock.NowMs(), wall_ms);
  clock.NeverBefore(wall_ms + 10);
  EXPECT_EQ(clock.NowMs(), wall_ms + 10);
  clock.NeverBefore(5);
  EXPECT_EQ(clock.NowMs(), wall_ms + 10);
}

TEST(ForwardClock, RunsNoFasterThanTheWallClockHoweverOftenItIsAsked) {
  absl::Time wall = absl::FromUnixMicros(1'000'000'100);
  absl::Duration steady = absl::Microseconds(700);
  const ForwardClock clock({[&] { return wall; }, [&] { return steady; }});
  for (int i = 0; i < 10'000; ++i) {
    wall += absl::Microseconds(370), steady += absl::Microseconds(370);
    ASSERT_EQ(clock.NowMs(), absl::ToUnixMillis(wall)) << i;
  }
}

TEST(ForwardClock, OfTheMachineIsItsTime) {
  const ForwardClock clock(ForwardClock::Machine());
  const int64_t before = absl::ToUnixMillis(absl::Now());
  const int64_t now = clock.NowMs();
  EXPECT_GE(now, before);
  EXPECT_LE(now, absl::ToUnixMillis(absl::Now()) + 1);
}

}  // namespace
}  // namespace lightcone
