#include "store/group_sync.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/status.h"

namespace lightcone {
namespace {

// A sync that stands still until the test lets it go.
struct HeldSync {
  absl::Notification begun, release;
  std::atomic<int> calls{0};
  absl::Status result;

  absl::Status operator()() {
    if (calls++ == 0) {
      begun.Notify();
      release.WaitForNotification();
      return result;
    }
    return absl::OkStatus();
  }
};

TEST(GroupSync, WritersThatArriveDuringASyncShareTheNextOne) {
  HeldSync sync;
  GroupSync group([&sync] { return sync(); });
  std::thread first([&group] { EXPECT_TRUE(group.Commit().ok()); });
  sync.begun.WaitForNotification();
  constexpr int kWriters = 8;
  absl::BlockingCounter started(kWriters);
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      started.DecrementCount();
      EXPECT_TRUE(group.Commit().ok());
    });
  }
  started.Wait();
  sync.release.Notify();
  first.join();
  for (std::thread& writer : writers) writer.join();
  // A thread may still have been on its way when the first sync ended; none needs more than one sync of its own.
  EXPECT_GE(group.syncs(), 2u);
  EXPECT_LE(group.syncs(), 1u + kWriters);
}

TEST(GroupSync, AfterAFailedSyncNobodyIsAcknowledgedUntilClear) {
  HeldSync sync;
  sync.result = Unavailable("disk gone");
  GroupSync group([&sync] { return sync(); });
  std::thread first([&group] { EXPECT_EQ(MessageOf(group.Commit()), "disk gone"); });
  sync.begun.WaitForNotification();
  sync.release.Notify();
  first.join();
  EXPECT_EQ(MessageOf(group.Commit()), "disk gone");
  EXPECT_EQ(sync.calls, 1) << "no sync may be tried after a failed one";
  group.Clear();
  EXPECT_TRUE(group.Commit().ok());
}

TEST(GroupSync, AFailedAppendFailsThoseThatWait) {
  HeldSync sync;
  GroupSync group([&sync] { return sync(); });
  std::thread first([&group] { EXPECT_EQ(MessageOf(group.Commit()), "append failed"); });
  sync.begun.WaitForNotification();
  group.Fail(Unavailable("append failed"));
  sync.release.Notify();
  first.join();
  EXPECT_EQ(MessageOf(group.failure()), "append failed");
}

TEST(GroupSync, AFullDiskGivesWayToAWorseFailureButNotTheOtherWayRound) {
  GroupSync group([] { return absl::OkStatus(); });
  group.Fail(ResourceExhausted("full"));
  group.Fail(Unavailable("broken"));
  group.Fail(ResourceExhausted("full again"));
  EXPECT_EQ(MessageOf(group.failure()), "broken");
}

}  // namespace
}  // namespace lightcone
