// What waits for the index's background work, and what that does with it: the change log, rebuilds, rows in memory, drops.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/manifest.h"
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

TEST_F(IndexWork, ReplayNeedsNoVectorOfRowsThatFilesHold) {
  settings_.growing_rows_max = 100;
  Open();
  Add(1, 20, 1);   // stay in memory
  Add(1, 10, 2);   // supersede ten of them
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

}  // namespace
}  // namespace lightcone
