// What waits for the index's background work, and what that does with it: the change log, rebuilds, rows in memory,
// drops.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/cores.h"
#include "base/files.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/rows/manifest.h"
#include "tests/index/index_life_testing.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using IndexWork = IndexLife;

TEST_F(IndexWork, AGenerationThatGetsNoMoreRowsDoesNotKeepTheChangeLog) {
  Open();
  Add(1, 10, 1);
  Add(1001, 190, 2);
  EXPECT_TRUE(Comes([&] { return std::ranges::count(Kinds(), "hnsw") > 0; }));
  EXPECT_EQ(index_->Stats().sealed_sequence, 0u) << "so soon, which would leave many small segments";
  Add(1191, 60, 2);
  EXPECT_TRUE(Comes([&] { return index_->Stats().sealed_sequence >= 200; })) << index_->Stats().sealed_sequence;
  // Deletions fill the log as well.
  Add(2001, 10, 1);
  for (uint64_t id = 1001; id < 1206; ++id) ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
  EXPECT_TRUE(Comes([&] { return index_->Stats().sealed_sequence > 260; })) << index_->Stats().sealed_sequence;
  ExpectEqual("sealed");
  Open();
  EXPECT_GT(index_->replay_after(), 260u);
  ExpectEqual("opened again");
}

TEST_F(IndexWork, ThreadsDoNotGrowWithIndexes) {
  const auto threads = [] {
    return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
  };
  const auto pools = 3 * std::max(4, AvailableCores());
  Open();
  Add(1, 120, 1);
  ASSERT_TRUE(index_->Flush().ok());
  const auto with_one = threads();
  struct Other {
    Oracle oracle;
    std::unique_ptr<CollectionIndex> index;
  };
  std::vector<Other> others(200);
  for (size_t i = 0; i < others.size(); ++i) {
    auto index = CollectionIndex::Open(StrCat(folder_.path(), "/other", i), settings_, generations_, &others[i].oracle);
    ASSERT_TRUE(index.ok()) << index.status();
    others[i].index = std::move(*index);
  }
  EXPECT_LE(threads(), with_one + pools);
  const std::span<Other> busy = std::span(others).first(12);
  for (Other& other : busy) {
    for (uint64_t id = 1; id <= 60; ++id) {
      ASSERT_TRUE(other.oracle.Write(other.index.get(), {Oracle::Add(id, 1, Vector())}).ok());
    }
  }
  EXPECT_LE(threads(), with_one + pools) << "while some of them seal";
  for (Other& other : busy) {
    ASSERT_TRUE(other.index->Flush().ok());
    int64_t sealed = 0;
    for (const SegmentInfo& segment : other.index->Stats().segments) {
      if (segment.kind != "growing") sealed += segment.rows;
    }
    EXPECT_EQ(sealed, 60);
  }
}

TEST_F(IndexWork, ThreadsOfBuildsDoNotInheritTheIdleClassOfThreadsThatCallThem) {
  constexpr int kOfThread = 1, kIdleClass = 3, kClassShift = 13;
  std::thread opener([&] {  // as a check of files may be
    ::syscall(SYS_ioprio_set, kOfThread, 0, kIdleClass << kClassShift);
    Open();
  });
  opener.join();
  Add(1, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  std::atomic<int64_t> of_builder = -1;
  oracle_.before_row = [&] { of_builder = ::syscall(SYS_ioprio_get, kOfThread, 0) >> kClassShift; };
  fs::remove(StrCat(folder_.path(), "/segments/", index_->Stats().segments.at(0).id, "/vectors.f32"));
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().rebuilds_total, 1);
  EXPECT_NE(of_builder, kIdleClass);
  index_.reset();
}

TEST_F(IndexWork, ReplayNeedsNoVectorOfRowsThatFilesHold) {
  settings_.growing_rows_max = 100;
  Open();
  Add(1, 20, 1);  // stay in memory
  Add(1, 10, 2);  // supersede ten of them
  Add(501, 90, 2);
  ASSERT_TRUE(Comes([&] { return std::ranges::count(Kinds(), "hnsw") > 0; }));
  index_.reset();  // The builder writes its checkpoint before it ends.
  auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_);
  ASSERT_TRUE(index.ok()) << index.status();
  index_ = std::move(*index);
  EXPECT_EQ(index_->replay_after(), 0u);
  EXPECT_TRUE(index_->WantsRows(1, 1));
  EXPECT_FALSE(index_->WantsRows(2, 120));
  EXPECT_FALSE(index_->WantsRows(3, 121)) << "there is no such generation";
  ASSERT_TRUE(oracle_.Replay(*index_, /*wanted_only=*/true).ok());
  ExpectEqual("replayed");
}

TEST_F(IndexWork, ARebuildThatARestartInterruptsIsDoneByTheNextStart) {
  settings_.kind = SealedKind::kFlat;
  Open();
  Add(1, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  // As the engine's record has it from the moment on in which a rebuild is asked for.
  settings_.kind = SealedKind::kHnsw;
  settings_.rebuild = 1;
  Open();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(Kinds(), std::vector<std::string>{"hnsw"});
  Open();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().builds_total, 0) << "rebuilt again";
  ExpectEqual("rebuilt");
}

TEST_F(IndexWork, RebuildingAtAStartSealsAsItGoesAndGoesOnAfterACrash) {
  settings_.merge_rows_max = 400;
  Open();
  Add(1, 2'000, 1);
  Add(1, 120, 2);
  index_.reset();
  fs::remove_all(folder_.path());
  // As the folder is when most has been read; then the process ends.
  TemporaryFolder crashed;
  int rows = 0;
  oracle_.before_row = [&] {
    if (++rows == 1'900) fs::copy(folder_.path(), crashed.path(), fs::copy_options::recursive);
  };
  Open();
  oracle_.before_row = {};
  ExpectEqual("rebuilt");
  const auto sealed_in = [](const std::string& folder) {
    std::vector<uint64_t> ids;
    const auto checkpoint = DecodeIndexCheckpoint(ReadFile(folder + "/index.json").value_or(""));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (!checkpoint.ok()) return ids;
    for (const auto& generation : checkpoint->generations) {
      EXPECT_FALSE(generation.complete) << generation.generation;
      ids.insert(ids.end(), generation.segments.begin(), generation.segments.end());
    }
    return ids;
  };
  const std::vector<uint64_t> kept = sealed_in(crashed.path());
  EXPECT_GE(kept.size(), 2u);
  auto again = CollectionIndex::Open(crashed.path(), settings_, generations_, &oracle_);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(oracle_.Replay(**again).ok());
  EXPECT_EQ((*again)->Stats().rebuilds_total, 0);
  ExpectIndexEquals(oracle_, **again, generations_, Vector(), "after the crash");
  ASSERT_TRUE((*again)->Flush().ok());
  index_ = std::move(*again);
  const int scans = oracle_.scans;
  index_.reset();
  again = CollectionIndex::Open(crashed.path(), settings_, generations_, &oracle_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(oracle_.scans, scans) << "it is whole, and the checkpoint says so";
  index_ = std::move(*again);
  ExpectEqual("whole");
  index_.reset();  // before its folder
}

TEST_F(IndexWork, ABuilderThatFailsWaitsWhateverComes) {
  const std::string segments = folder_.path() + "/segments";
  Open();
  fs::rename(segments, segments + ".real");
  std::ofstream(segments) << "in the way";
  Add(1, 60, 1);
  EXPECT_FALSE(index_->Flush().ok());
  // Each of these is a reason to look for work. Segments are numbered as their builds begin.
  for (const absl::Time end = absl::Now() + absl::Seconds(2); absl::Now() < end; std::this_thread::yield()) {
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  }
  fs::remove(segments);
  fs::rename(segments + ".real", segments);
  ASSERT_TRUE(index_->Flush().ok()) << "a flush does not wait";
  ASSERT_EQ(index_->Stats().segments.size(), 1u);
  EXPECT_LT(index_->Stats().segments[0].id, 20u);
  ExpectEqual("mended");
}

TEST_F(IndexWork, RowsThatWaitToBeSealedAreBounded) {
  const auto unsealed = [&] {
    int64_t bytes = 0;
    for (const SegmentInfo& segment : index_->Stats().segments) bytes += segment.kind == "growing" ? segment.bytes : 0;
    return bytes;
  };
  limits_.unsealed_bytes_max = 40'000;
  Open();
  // The builder is held, and nothing is sealed: by an embedding that does not come from the store.
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  absl::Notification reading, go_on;
  oracle_.before_row = [&] {
    if (reading.HasBeenNotified()) return;
    reading.Notify();
    go_on.WaitForNotification();
  };
  fs::remove(StrCat(folder_.path(), "/segments/", index_->Stats().segments.at(0).id, "/vectors.f32"));
  std::thread flush([&] { EXPECT_TRUE(index_->Flush().ok()); });
  reading.WaitForNotification();
  EXPECT_TRUE(*index_->AwaitRoom(absl::InfinitePast()));
  uint64_t rows = 0;
  while (*index_->AwaitRoom(absl::InfinitePast())) Add(101 + rows++, 1, 2);
  EXPECT_GE(unsealed(), limits_.unsealed_bytes_max);
  EXPECT_LT(unsealed(), 2 * limits_.unsealed_bytes_max);
  EXPECT_FALSE(*index_->AwaitRoom(absl::Now()));
  std::thread waiter([&] { EXPECT_TRUE(*index_->AwaitRoom(absl::InfiniteFuture())); });
  go_on.Notify();
  waiter.join();
  flush.join();
  oracle_.before_row = {};
  EXPECT_LT(unsealed(), limits_.unsealed_bytes_max);
  ExpectEqual("with room");
}

TEST_F(IndexWork, GrowingSegmentsThatAreNeverFullMakeRoomToo) {
  settings_.growing_rows_max = settings_.merge_rows_max = 1'000'000;
  limits_.unsealed_bytes_max = 10'000;
  Open();
  for (uint64_t id = 1; id <= 500; ++id) {
    Add(id, 1, 1 + id % 2);
    ASSERT_TRUE(*index_->AwaitRoom(absl::InfiniteFuture()));
  }
  EXPECT_GT(index_->Stats().builds_total, 0);
  ExpectEqual("with room");
}

TEST_F(IndexWork, WhereSealingFailsNothingWaitsForRoom) {
  const std::string segments = folder_.path() + "/segments";
  limits_.unsealed_bytes_max = 10'000;
  Open();
  fs::rename(segments, segments + ".real");
  std::ofstream(segments) << "in the way";
  Add(1, 10, 1);
  EXPECT_FALSE(index_->Flush().ok());
  EXPECT_TRUE(*index_->AwaitRoom(absl::InfiniteFuture())) << "there is some";
  Add(11, 200, 1);
  const auto room = index_->AwaitRoom(absl::InfiniteFuture());
  EXPECT_EQ(room.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(room.status()), HasSubstr("index.unsealed_bytes_max is 10000"));
  EXPECT_THAT(MessageOf(room.status()), HasSubstr("/segments/"));
  fs::remove(segments);
  fs::rename(segments + ".real", segments);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_TRUE(*index_->AwaitRoom(absl::InfiniteFuture()));
}

class IndexDrop : public IndexWork, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(PreparedOrNot, IndexDrop, testing::Bool());

TEST_P(IndexDrop, BesideWritesAndBuildsLeavesEveryItemFoundOnce) {
  generations_ = {{1, kSpace}, {2, kSpace}, {3, kSpace}};
  settings_.growing_rows_max = 2'000;
  settings_.kind = SealedKind::kFlat;
  Open();
  constexpr uint64_t kItems = 30'000;
  for (uint32_t generation = 1; generation <= 2; ++generation) {
    for (uint64_t first = 1; first <= kItems; first += 1'000) {
      Oracle::Batch batch;
      for (uint64_t id = first; id < first + 1'000; ++id) batch.push_back(Oracle::Add(id, generation, Vector()));
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    }
  }
  std::atomic<bool> stop{false};
  std::atomic<int> written{0};
  std::thread writer([&] {
    // Newer embeddings, older ones that come late, deletions, new items: of rows that have been looked at and others.
    for (uint64_t i = 0; !stop.load(); ++i, ++written) {
      const uint64_t id = 1 + (i * 7'919) % kItems;
      Oracle::Batch batch;
      if (i % 4 == 3) {
        batch.push_back(Oracle::Delete(id));
      } else {
        batch.push_back(Oracle::Add(i % 4 == 2 ? kItems + i : id, i % 4 == 1 ? 1 : 3, Vector()));
      }
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    }
  });
  const auto await_writes = [&written](int count) {
    const int before = written.load();
    while (written.load() < before + count) std::this_thread::yield();
  };
  if (GetParam()) {
    ASSERT_TRUE(index_->PrepareDrop(2, [] { return false; }).ok());
    await_writes(2'000);                // what was looked up is overwritten, and rows come that nobody looked at
    ASSERT_TRUE(index_->Flush().ok());  // into other segments
  }
  ASSERT_TRUE(index_->DropGeneration(2).ok());
  await_writes(10);
  stop.store(true);
  writer.join();
  oracle_.DropGeneration(2);
  generations_ = {{1, kSpace}, {3, kSpace}};
  ExpectEqual("dropped");
  ASSERT_TRUE(index_->Flush().ok());
  ExpectEqual("sealed");
}

}  // namespace
}  // namespace lightcone
