// A restore of a collection whose disk is full or fails, that is cancelled or killed: the collection is there as a
// whole, or nothing of it is.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "base/files.h"
#include "base/retry_after.h"
#include "snapshot/shelf.h"
#include "tests/engine/restore_world.h"

namespace lightcone::server {
namespace {

constexpr char kChildFolder[] = "LIGHTCONE_RESTORE_TEST_FOLDER";  // data folder of the child's engine
constexpr char kChildWrite[] = "LIGHTCONE_RESTORE_TEST_WRITE";    // write at which the child dies, from 1
constexpr char kChildAfter[] = "LIGHTCONE_RESTORE_TEST_AFTER";    // "1": it dies behind that write

TEST_F(CollectionRestoreTest, AFullDiskAndAnyFailedWriteLeaveNothingBehind) {
  MakeSmallWorld();
  const auto items = ItemsOf(*engine_, "c");
  for (const bool full : {true, false}) {
    bool whole = false;
    for (int at = 1; !whole; ++at) {
      ASSERT_LT(at, 100) << "the restore never succeeded";
      engine_.reset();
      Watch watch;
      watch.growth = [&](int n) { return full && n >= at ? ResourceExhausted("the disk is full") : absl::OkStatus(); };
      // A store that has failed takes no more writes.
      watch.before_write = [&](int n) { return !full && n >= at ? Unavailable("the disk is gone") : absl::OkStatus(); };
      auto watched = OpenWatched(folder_.path(), &watch);
      ASSERT_NE(watched, nullptr);
      watch.armed = true;
      const auto restored = Restore(*watched, "copy");
      watch.armed = false;
      whole = restored.ok();
      const std::string what = StrCat(full ? "full disk" : "failed write", " at ", at);
      if (whole) {
        EXPECT_EQ(ItemsOf(*watched, "copy"), items) << what;
        ASSERT_TRUE(watched->DropCollection("copy", "").ok());
      } else {
        EXPECT_TRUE(Fails(restored, full ? Code::kResourceExhausted : Code::kUnavailable, {"the disk is"})) << what;
        EXPECT_EQ(watched->ListCollections()->size(), 1u) << what;
      }
      watched.reset();
      if (!full && !whole) {  // The call could not even clean up: the next start does.
        engine_ = OpenEngine(folder_.path());
        ASSERT_NE(engine_, nullptr);
        EXPECT_EQ(engine_->ListCollections()->size(), 1u) << what;
      }
      ExpectNoStrays(what);
      if (HasFailure()) return;
    }
  }
}

TEST_F(CollectionRestoreTest, ACallThatIsCancelledOnItsWayLeavesNothingBehind) {
  MakeSmallWorld();
  int asked_max = 0;
  for (int at = 2; at < 60; ++at) {
    int asked = 0;
    CallContext context;
    context.cancelled = [&] { return ++asked >= at; };
    const auto restored =
        engine_->snapshots().RestoreCollection({.snapshot = "all", .collection = "c", .name = "copy"}, context);
    asked_max = std::max(asked_max, asked);
    if (restored.ok()) break;
    ASSERT_TRUE(Fails(restored, Code::kCancelled, {})) << at;
    EXPECT_TRUE(Fails(engine_->GetCollection("copy"), Code::kNotFound, {"copy"})) << at;
  }
  EXPECT_GT(asked_max, 5) << "it is asked while rows are copied";
  ExpectNoStrays("after calls that were cancelled");
}

TEST_F(CollectionRestoreTest, OperatorsOfOtherCollectionsDoNotWaitForARestore) {
  MakeSmallWorld();
  engine_.reset();
  Watch watch;
  std::unique_ptr<Engine> watched;
  bool asked = false;
  // In the restore's own thread, in the midst of its rows: a lock that it held would not be given twice.
  watch.growth = [&](int n) {
    if (n != 2) return absl::OkStatus();
    asked = true;
    UpdateCollectionCall update;
    update.collection = "c";
    update.require_generation = true;
    EXPECT_TRUE(watched->UpdateCollection(update).ok());
    CreateCollectionCall create;
    create.name = "between";
    EXPECT_TRUE(watched->CreateCollection(create).ok());
    const auto second = Restore(*watched, "second");
    EXPECT_TRUE(Fails(second, Code::kResourceExhausted, {"another collection is being restored"}));
    EXPECT_TRUE(RetryAfterOf(second.status()).has_value());
    return absl::OkStatus();
  };
  watched = OpenWatched(folder_.path(), &watch);
  ASSERT_NE(watched, nullptr);
  watch.armed = true;
  const auto restored = Restore(*watched, "copy");
  watch.armed = false;
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(asked);
  EXPECT_EQ(watched->ListCollections()->size(), 3u);
  watched.reset();
  ExpectNoStrays("three collections");
}

TEST_F(CollectionRestoreTest, ASecondSnapshotIsRefusedAtOnceAndAnEarlierRequestIsAnswered) {
  MakeSmallWorld();
  engine_.reset();
  Watch watch;
  std::unique_ptr<Engine> watched;
  bool asked = false;
  // In the thread that makes the first snapshot: a call that waited would wait for ever.
  watch.growth = [&](int) {
    if (std::exchange(asked, true)) return absl::OkStatus();
    for (const CreateSnapshotCall& call : {CreateSnapshotCall{"second"}, {"", "request-2"}}) {
      const auto second = watched->snapshots().Create(call, {});
      EXPECT_TRUE(Fails(second, Code::kResourceExhausted, {"another snapshot is being made"}));
      EXPECT_TRUE(RetryAfterOf(second.status()).has_value());
    }
    const auto earlier = watched->snapshots().Create({"earlier", "request-1"}, {});
    EXPECT_TRUE(earlier.ok()) << earlier.status();
    return absl::OkStatus();
  };
  watched = OpenWatched(folder_.path(), &watch);
  ASSERT_NE(watched, nullptr);
  ASSERT_TRUE(watched->snapshots().Create({"earlier", "request-1"}, {}).ok());
  watch.armed = true;
  const auto made = watched->snapshots().Create({"first", "request-2"}, {});
  watch.armed = false;
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(asked);
  EXPECT_EQ(watched->snapshots().Create({"first", "request-2"}, {})->manifest.name, "first");
  EXPECT_TRUE(watched->snapshots().Create({"second"}, {}).ok()) << "the lock is free again";
}

TEST_F(CollectionRestoreTest, TheRoomForAllRowsIsAskedBeforeANumberIsTaken) {
  MakeSmallWorld();
  engine_.reset();
  Watch watch;
  int writes = -1;
  uint64_t bytes = 0;
  watch.growth = [&](int) {
    writes = watch.writes;
    bytes = watch.growth_bytes;
    return ResourceExhausted("the disk is full");
  };
  auto watched = OpenWatched(folder_.path(), &watch);
  ASSERT_NE(watched, nullptr);
  watch.armed = true;
  EXPECT_TRUE(Fails(Restore(*watched, "copy"), Code::kResourceExhausted, {"the disk is full"}));
  watch.armed = false;
  EXPECT_EQ(writes, 0) << "nothing was written before";
  EXPECT_EQ(watch.questions, 1);
  EXPECT_GT(bytes, 58 * kDimension * sizeof(float)) << "the embeddings alone";
  watched.reset();
  ExpectNoStrays("nothing was written");
}

TEST_F(CollectionRestoreTest, ALackOfMemoryLeavesTheWholeCollectionOrNothingOfIt) {
  MakeSmallWorld();
  const auto items = ItemsOf(*engine_, "c");
  const std::thread::id self = std::this_thread::get_id();
  int failed = 0, whole = 0;
  for (const bool after : {false, true}) {
    bool ended = false;
    for (int at = 1; !ended; ++at) {
      ASSERT_LT(at, 100) << "the restore never succeeded";
      engine_.reset();
      Watch watch;
      const auto lack = [&](int n) {
        if (n == at && std::this_thread::get_id() == self) throw std::bad_alloc();
      };
      watch.before_write = [&](int n) {
        if (!after) lack(n);
        return absl::OkStatus();
      };
      watch.after_write = [&](int n) {
        if (after) lack(n);
      };
      auto watched = OpenWatched(folder_.path(), &watch);
      ASSERT_NE(watched, nullptr);
      watch.armed = true;
      const auto restored = Restore(*watched, "copy");
      watch.armed = false;
      ended = restored.ok();
      const std::string what = StrCat(after ? "after" : "before", " write ", at);
      if (!ended) {
        ++failed;
        EXPECT_TRUE(Fails(restored, Code::kResourceExhausted, {"out of memory"})) << what;
        EXPECT_EQ(watched->ListCollections()->size(), 1u) << what;
      }
      watched.reset();
      ExpectNoStrays(what + ", without a start");
      engine_ = OpenEngine(folder_.path());
      ASSERT_NE(engine_, nullptr) << what;
      EXPECT_EQ(ItemsOf(*engine_, "c"), items) << what;
      if (engine_->GetCollection("copy").ok()) {
        ++whole;
        EXPECT_EQ(ItemsOf(*engine_, "copy"), items) << what;
        ASSERT_TRUE(engine_->DropCollection("copy", "").ok());
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(failed, 5);
  EXPECT_EQ(whole, 3) << "two calls that succeeded, and one that failed behind its last write";
}

TEST_F(CollectionRestoreTest, ACallThatIsCancelledWhileItsIndexIsMadeEndsThere) {
  MakeSmallWorld();
  engine_.reset();
  Watch watch;
  std::atomic<bool> opening{false};
  // The rows are copied from another store: this one's log is read by the opening alone.
  watch.before_scan = [&](Table table) { opening = opening || table == Table::kChanges; };
  auto watched = OpenWatched(folder_.path(), &watch);
  ASSERT_NE(watched, nullptr);
  CallContext context;
  context.cancelled = [&] { return opening.load(); };
  watch.armed = true;
  const auto restored =
      watched->snapshots().RestoreCollection({.snapshot = "all", .collection = "c", .name = "copy"}, context);
  watch.armed = false;
  EXPECT_TRUE(opening);
  EXPECT_TRUE(Fails(restored, Code::kCancelled, {"open collection 'copy'"}));
  watched.reset();
  ExpectNoStrays("after the call that was cancelled");
}

TEST_F(CollectionRestoreTest, RetentionPassesOverASnapshotInUseAndDropsTheOlderOnes) {
  MakeSmallWorld();
  const SnapshotShelf shelf(folder_.path() + "/snapshots");
  auto used = ReadSnapshotManifest(shelf.PathOf("all"));
  ASSERT_TRUE(used.ok()) << used.status();
  used->scheduled = true;
  const std::string manifest = StrCat(shelf.PathOf("all"), "/", kSnapshotManifestName);
  ASSERT_TRUE(WriteFileAtomically(manifest, EncodeSnapshotManifest(*used)).ok());
  SnapshotManifest older;
  older.name = "older";
  older.scheduled = true;
  older.time_us = used->time_us - 1;
  ASSERT_TRUE(shelf.Begin(older.name).ok());
  ASSERT_TRUE(shelf.Commit(older.name, EncodeSnapshotManifest(older)).ok());
  engine_.reset();
  Watch watch;
  std::unique_ptr<Engine> watched;
  const std::thread::id self = std::this_thread::get_id();
  bool begun = false;
  watch.growth = [&](int) {
    if (std::this_thread::get_id() != self || begun) return absl::OkStatus();
    begun = true;
    BackupOptions options;
    options.every = absl::Milliseconds(1);
    options.keep = 1;
    EXPECT_TRUE(watched->snapshots().Start(options).ok());
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (fs::exists(shelf.PathOf("older")) && absl::Now() < give_up) std::this_thread::yield();
    EXPECT_FALSE(fs::exists(shelf.PathOf("older"))) << "it stands behind the one in use";
    EXPECT_TRUE(fs::exists(shelf.PathOf("all")));
    return absl::OkStatus();
  };
  watched = OpenWatched(folder_.path(), &watch);
  ASSERT_NE(watched, nullptr);
  watch.armed = true;
  const auto restored = Restore(*watched, "copy");
  EXPECT_TRUE(begun);
  EXPECT_TRUE(restored.ok()) << restored.status();
  watched.reset();  // ends the schedule
}

// The child restores "c" as "copy" and dies at one of its writes. It ends by itself where there are fewer.
TEST(RestoreChild, Body) {
  const char* const folder = std::getenv(kChildFolder);
  if (folder == nullptr) return;
  const int at = std::stoi(std::getenv(kChildWrite));
  const bool after = std::string(std::getenv(kChildAfter)) == "1";
  Watch watch;
  watch.before_write = [&](int n) {
    if (n == at && !after) raise(SIGKILL);
    return absl::OkStatus();
  };
  watch.after_write = [&](int n) {
    if (n == at && after) raise(SIGKILL);
  };
  const auto engine = OpenWatched(folder, &watch);
  if (engine == nullptr) _exit(3);
  watch.armed = true;
  const auto restored =
      engine->snapshots().RestoreCollection({.snapshot = "all", .collection = "c", .name = "copy"}, {});
  watch.armed = false;
  _exit(restored.ok() ? 0 : 4);
}

TEST_F(CollectionRestoreTest, AKilledServerHasTheWholeCollectionOrNothingOfIt) {
  MakeSmallWorld();
  const auto items = ItemsOf(*engine_, "c");
  int kills = 0, whole = 0, none = 0;
  for (const bool after : {false, true}) {
    for (int at = 1;; ++at) {
      ASSERT_LT(at, 100) << "the child never ended by itself";
      engine_.reset();
      const pid_t child = fork();
      if (child == 0) {
        setenv(kChildFolder, folder_.path().c_str(), 1);
        setenv(kChildWrite, std::to_string(at).c_str(), 1);
        setenv(kChildAfter, after ? "1" : "0", 1);
        execl("/proc/self/exe", "engine_restore_test", "--gtest_filter=RestoreChild.Body", "--gtest_brief=1",
              static_cast<char*>(nullptr));
        _exit(9);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      const bool killed = WIFSIGNALED(status);
      if (!killed) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
      }
      const std::string what = StrCat(after ? "after" : "before", " write ", at);
      engine_ = OpenEngine(folder_.path());
      ASSERT_NE(engine_, nullptr) << what;
      EXPECT_EQ(ItemsOf(*engine_, "c"), items) << what;
      if (engine_->GetCollection("copy").ok()) {
        ++whole;
        EXPECT_EQ(ItemsOf(*engine_, "copy"), items) << what;
        ASSERT_TRUE(engine_->DropCollection("copy", "").ok());
      } else {
        ++none;
      }
      ExpectNoStrays(what);
      if (HasFailure()) return;
      if (!killed) break;
      ++kills;
    }
  }
  EXPECT_GT(kills, 10);
  EXPECT_GE(whole, 3) << "two children that end by themselves, and one that dies behind the last write";
  EXPECT_GT(none, 5);
}

}  // namespace
}  // namespace lightcone::server
