// Segments are rewritten beside the sealing of what writes bring, and neither keeps the other waiting.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/work_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/life/generation_drop.h"
#include "index/life/index_loader.h"
#include "index/life/rewrites.h"
#include "index/rows/id_set.h"
#include "tests/index/index_life_testing.h"
#include "tests/support/file_size_limit.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class IndexRewrite : public IndexLife {
 protected:
  // One sealed segment of generation 1 without a graph.
  void SealWithoutGraph(uint64_t rows) {
    settings_.kind = SealedKind::kFlat;
    settings_.growing_rows_max = 100'000;
    Open();
    Oracle::Batch batch;
    for (uint64_t id = 1; id <= rows; ++id) batch.push_back(Oracle::Add(id, 1, Vector()));
    ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    ASSERT_TRUE(index_->Flush().ok());
    settings_.kind = SealedKind::kHnsw;
    settings_.growing_rows_max = 50;
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  }

  // New rows of generation 2 for as long as it lives.
  class Writing {
   public:
    explicit Writing(IndexRewrite* test, uint64_t first = 1'000'000)
        : thread_([this, test, first] {
            for (uint64_t id = first; !stop_.load(); ++id) test->Add(id, 1, 2);
          }) {}
    ~Writing() {
      stop_.store(true);
      thread_.join();
    }

   private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
  };

  // Writes new rows of generation 1, `rows` of which are there, without a pause until `there` says so.
  void LoadUntil(uint64_t* rows, const std::function<bool()>& there) {
    while (!there()) {
      // Not so many that a builder without a core is left behind for ever; but a pause would end the load.
      const int batch_rows = RowsOf("growing") < 40'000 ? 1'000 : 1;
      Oracle::Batch batch;
      for (int i = 0; i < batch_rows; ++i) batch.push_back(Oracle::Add(++*rows, 1, Vector()));
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
      ASSERT_LT(*rows, 1'000'000u) << "it does not come";
      if (batch_rows == 1) absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void DamageTheFirstSegment() {
    fs::remove(StrCat(folder_.path(), "/segments/", index_->Stats().segments.at(0).id, "/vectors.f32"));
  }

  int64_t RowsOf(const std::string& kind, uint32_t generation = 0) const {
    int64_t rows = 0;
    for (const SegmentInfo& segment : index_->Stats().segments) {
      if (segment.kind == kind && (generation == 0 || segment.generation == generation)) rows += segment.rows;
    }
    return rows;
  }
};

TEST_F(IndexRewrite, RowsOfWritesAreSealedWhileALongRewriteGoesOn) {
  constexpr uint64_t kRows = 60'000;
  SealWithoutGraph(kRows);
  settings_.hnsw_m = 64;
  settings_.hnsw_ef_construction = 4'000;  // for minutes
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  ASSERT_TRUE(Comes([&] { return index_->Stats().builds_running == 1; }));
  settings_.hnsw_m = 4;
  settings_.hnsw_ef_construction = 16;
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  Add(kRows + 1, 150, 1);
  Add(kRows + 1, 50, 2);
  Add(1, 10, 1);  // rows that the rewrite reads
  EXPECT_TRUE(Comes([&] { return RowsOf("hnsw", 1) >= 150 && RowsOf("hnsw", 2) == 50; }));
  EXPECT_TRUE(Comes([&] { return index_->Stats().sealed_sequence >= 150; })) << "the change log is kept";
  EXPECT_EQ(RowsOf("flat"), static_cast<int64_t>(kRows)) << "the rewrite was over too soon to show anything";
  EXPECT_EQ(index_->Stats().builds_running, 1);
  ExpectEqual("beside the rewrite");
  // The rewrite ends with the index, and what was sealed beside it is there.
  Open();
  EXPECT_GE(RowsOf("hnsw", 1), 150);
  ExpectEqual("opened again");
}

TEST_F(IndexRewrite, RowsThatComeFasterThanGraphsAreBuiltAreSealedWithoutAndHaveTheirGraphLater) {
  constexpr int64_t kRows = 20'000;
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = 500;
  settings_.hnsw_m = 64;
  settings_.hnsw_ef_construction = 4'000;  // for minutes
  Open();
  Add(1, 500, 1);  // the builder has something to do
  const int64_t row_bytes = index_->Stats().heap_bytes / 500;
  limits_.unsealed_bytes_max = 4'000 * row_bytes;
  Open();
  for (int64_t id = 501; id <= kRows; id += 500) {
    Add(static_cast<uint64_t>(id), 500, 1);
    ASSERT_TRUE(index_->AwaitRoom(absl::Now() + absl::Minutes(1)).value()) << "writes waited for a graph";
  }
  EXPECT_TRUE(Comes([&] { return RowsOf("growing") == 0; }));
  EXPECT_GT(RowsOf("flat"), kRows / 3) << "graphs were built too soon to show anything";
  ExpectEqual("sealed without graphs");
  settings_.hnsw_m = 4;
  settings_.hnsw_ef_construction = 16;
  // No rebuild is asked for, and a start remembers what is yet to be done.
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  Open();
  EXPECT_GT(RowsOf("flat"), kRows / 3);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("flat"), 0);
  EXPECT_EQ(RowsOf("hnsw"), kRows);
  ExpectEqual("with graphs");
}

TEST_F(IndexRewrite, ALoadThatASingleSegmentCouldHoldDoesNotWaitForItsGraphEither) {
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = settings_.merge_rows_max = 1'000'000;
  settings_.hnsw_m = 64;
  settings_.hnsw_ef_construction = 4'000;
  Open();
  Add(1, 500, 1);
  limits_.unsealed_bytes_max = 16'000 * (index_->Stats().heap_bytes / 500);
  Open();
  for (uint64_t id = 501; id <= 20'000; id += 500) {
    Add(id, 500, 1);
    ASSERT_TRUE(index_->AwaitRoom(absl::Now() + absl::Minutes(1)).value()) << "writes waited for a graph";
  }
  EXPECT_TRUE(Comes([&] { return RowsOf("flat") + RowsOf("ivf") > 0; }))
      << "one graph was built of all that there was room for";
  ExpectEqual("sealed without graphs");
}

TEST_F(IndexRewrite, SearchesReadAFewListsOfRowsThatComeFasterThanGraphsAreBuilt) {
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = 4'000;
  settings_.hnsw_ef_construction = 400;
  Open();
  uint64_t rows = 0;
  LoadUntil(&rows, [this] { return RowsOf("ivf") >= 60'000; });
  const int64_t growing = RowsOf("growing");  // and no more in the view
  const bool graphs = RowsOf("hnsw") > 0;     // where this thread had no core for a while
  const std::shared_ptr<const IndexView> view = index_->View();
  IdFilter odd_ids;
  for (uint64_t id = 1; id <= 2 * rows; id += 2) odd_ids.ids.Add(id);
  int64_t scored = 0, found = 0;
  for (int i = 0; i < 100; ++i) {
    const BoundQuery query = Bind(kSpace, Vector());
    SearchRequest request;
    request.query = &query;
    request.generation = request.view_generation = 1;
    request.k = 10;
    const auto near = view->Search(request);
    ASSERT_TRUE(near.ok()) << near.status();
    scored += near->rows_scored;
    request.exact = true;
    const auto nearest = view->Search(request);
    ASSERT_TRUE(nearest.ok()) << nearest.status();
    found += std::count_if(near->hits.begin(), near->hits.end(),
                           [&](const SearchHit& hit) { return hit.distance <= nearest->hits.back().distance; });
    request.exact = false;
    request.ids = &odd_ids;  // of which nothing was measured: what passes is scanned
    const auto passing = view->Search(request);
    request.exact = true;
    const auto right = view->Search(request);
    ASSERT_TRUE(passing.ok() && right.ok());
    ASSERT_EQ(passing->hits.size(), 10u);
    for (size_t h = 0; h < 10 && !graphs; ++h) EXPECT_EQ(passing->hits[h].internal_id, right->hits[h].internal_id);
  }
  EXPECT_LT(scored / 100, growing + (static_cast<int64_t>(rows) - growing) * 3 / 4);
  EXPECT_GE(found, 950);
  ExpectEqual("in lists");
  settings_.hnsw_m = 4;
  settings_.hnsw_ef_construction = 16;
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  Open();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("ivf"), 0);
  EXPECT_EQ(RowsOf("hnsw"), static_cast<int64_t>(rows));
  ExpectEqual("with graphs");
}

TEST_F(IndexRewrite, GraphsAreBuiltBesideALoadOnceAsMuchWaitsForThemAsMayWaitToBeSealed) {
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = 4'000;
  settings_.merge_rows_max = 80'000;  // graphs of a quarter
  limits_.unsealed_bytes_max = 16'000'000;
  Open();
  uint64_t rows = 0;
  LoadUntil(&rows, [this] { return RowsOf("ivf") > 0; });
  LoadUntil(&rows, [this] { return RowsOf("hnsw") > 0; });
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("ivf") + RowsOf("flat"), 0);
  ExpectEqual("after the load");
}

TEST_F(IndexRewrite, AFlushBesideWritesWaitsForTheGraphsOfRowsThatWereSealedInAHurry) {
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = 200;
  limits_.unsealed_bytes_max = 400'000;
  Open();
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 8'000; ++id) batch.push_back(Oracle::Add(id, 1, Vector()));
  ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());  // more than fits, at once
  {
    const Writing writing(this);
    ASSERT_TRUE(index_->Flush().ok());
    EXPECT_EQ(RowsOf("flat", 1), 0);
    EXPECT_EQ(RowsOf("hnsw", 1), 8'000);
  }
  // And for compaction, whatever else is sealed in a hurry.
  batch.clear();
  for (uint64_t id = 1; id <= 5'000; ++id) batch.push_back(Oracle::Delete(id));
  ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
  const Writing writing(this, /*first=*/2'000'000);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_LT(RowsOf("hnsw", 1), 4'000);
}

TEST_F(IndexRewrite, AGenerationThatIsDroppedWhileItsGraphIsYetToBeBuiltIsGone) {
  settings_.kind = SealedKind::kHnsw;
  settings_.growing_rows_max = 500;
  settings_.hnsw_m = 64;
  settings_.hnsw_ef_construction = 4'000;
  limits_.unsealed_bytes_max = 1'000'000;
  Open();
  Oracle::Batch batch;
  for (uint64_t id = 1; id <= 30'000; ++id) batch.push_back(Oracle::Add(id, 2, Vector()));
  ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
  EXPECT_TRUE(Comes([&] { return RowsOf("growing") == 0 && RowsOf("flat", 2) > 0; }));
  ASSERT_TRUE(index_->DropGeneration(2).ok());
  oracle_.DropGeneration(2);
  generations_ = {{1, kSpace}};
  Add(50'001, 10, 1);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("flat"), 0);
  EXPECT_EQ(RowsOf("hnsw"), 10);
  EXPECT_TRUE(index_->Stats().last_error.ok());
  ExpectEqual("without it");
}

TEST_F(IndexRewrite, ChangesOfRowsThatAreBeingRewrittenAreNotLost) {
  SealWithoutGraph(3'000);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
    std::atomic<bool> flushed{false};
    std::thread flush([&] {
      EXPECT_TRUE(index_->Flush().ok());
      flushed.store(true);
    });
    for (uint64_t i = 0; !flushed.load(); ++i) {
      const uint64_t id = 1 + (i * 7'919) % 3'000;
      ASSERT_TRUE(
          oracle_.Write(index_.get(), {i % 3 == 0 ? Oracle::Delete(id) : Oracle::Add(id, i % 3 == 1 ? 1 : 2, Vector())})
              .ok());
    }
    flush.join();
    ExpectEqual("rewritten");
    if (round % 2 == 0) Open();
  }
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_THAT(Kinds(), Not(Contains("flat")));
  EXPECT_TRUE(index_->Stats().last_error.ok());
}

TEST_F(IndexRewrite, AMergeForWhichThereIsNoRoomKeepsNothingElseWaiting) {
  SealWithoutGraph(20'000);
  limits_.unsealed_bytes_max = 40'000;
  Open();
  const int64_t sealed_before = RowsOf("flat");
  {
    FileSizeLimit full(100'000);
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
    EXPECT_THAT(MessageOf(index_->Flush()), HasSubstr("write segment"));
    EXPECT_THAT(MessageOf(index_->Stats().last_error), HasSubstr("write segment"));
    for (uint64_t id = 20'001; id <= 21'000; ++id) {
      Add(id, 1, 1);
      const auto room = index_->AwaitRoom(absl::InfiniteFuture());
      ASSERT_TRUE(room.ok()) << room.status();
    }
    EXPECT_TRUE(Comes([&] { return RowsOf("hnsw") >= 1'000; })) << RowsOf("hnsw");
    EXPECT_EQ(RowsOf("flat"), sealed_before);
    ExpectEqual("beside what fails");
  }
  EXPECT_TRUE(index_->Flush().ok()) << "a flush tries again at once";
  EXPECT_EQ(RowsOf("flat"), 0);
  EXPECT_TRUE(index_->Stats().last_error.ok());
  ExpectEqual("rewritten");
}

TEST_F(IndexRewrite, ARebuildThatFailsBesideWritesThatNeverPauseIsTold) {
  SealWithoutGraph(20'000);
  settings_.merge_rows_max = 2'000;  // so that what is sealed stays small
  Open();
  {
    FileSizeLimit full(100'000);
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
    const Writing writing(this);
    EXPECT_THAT(MessageOf(index_->Flush()), HasSubstr("write segment"));
    EXPECT_THAT(MessageOf(index_->Stats().last_error), HasSubstr("write segment"));
    EXPECT_THAT(MessageOf(index_->Flush()), HasSubstr("write segment")) << "once more";
    EXPECT_TRUE(Comes([&] { return RowsOf("hnsw", 2) >= 5'000; })) << "rows of writes are sealed and merged meanwhile";
  }
  const Writing writing(this);
  EXPECT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("flat"), 0);
  EXPECT_TRUE(index_->Stats().last_error.ok()) << index_->Stats().last_error;
}

TEST_F(IndexRewrite, AMendThatFailedOnceIsTriedAgainByAFlushBesideWrites) {
  SealWithoutGraph(2'000);
  const Writing writing(this);
  oracle_.unreadable = 1;
  DamageTheFirstSegment();
  EXPECT_THAT(MessageOf(index_->Flush()), HasSubstr("the store cannot be read"));
  oracle_.unreadable = 0;
  EXPECT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().segments_damaged, 0);
}

TEST_F(IndexRewrite, AFlushDoesNotWaitForWhatOverwritesKeepMakingDue) {
  settings_.kind = SealedKind::kFlat;
  Open();
  Add(1, 5'000, 1);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop.load(); ++i) Add(1 + (i * 7'919) % 5'000, 1, 1);
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(index_->Flush(absl::Now() + absl::Minutes(1)).ok());
  stop.store(true);
  writer.join();
  ExpectEqual("flushed");
}

// No descriptor is left, or no permission: a link that leads to itself stands for them all.
TEST_F(IndexRewrite, AFlushWaitsForARebuildWhoseSourceCannotBeReadNow) {
  SealWithoutGraph(3'000);
  const std::string path = StrCat(folder_.path(), "/segments/", index_->Stats().segments.at(0).id, "/vectors.f32");
  fs::rename(path, path + ".real");
  fs::create_symlink(path, path);
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  const absl::Status flushed = index_->Flush(absl::Now() + absl::Seconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(flushed)) << flushed;
  EXPECT_TRUE(index_->Stats().last_error.ok()) << index_->Stats().last_error;
  fs::rename(path + ".real", path);
  EXPECT_TRUE(index_->Flush(absl::Now() + absl::Minutes(1)).ok());
  EXPECT_EQ(RowsOf("hnsw"), 3'000);
  EXPECT_EQ(index_->Stats().rebuilds_total, 0);
  ExpectEqual("rebuilt");
}

TEST_F(IndexRewrite, TheErrorOfARebuildGoesWithItsGeneration) {
  SealWithoutGraph(20'000);
  {
    FileSizeLimit full(100'000);
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
    EXPECT_FALSE(index_->Flush().ok());
    ASSERT_TRUE(index_->DropGeneration(1).ok());
    EXPECT_TRUE(index_->Flush().ok());
    EXPECT_TRUE(index_->Stats().last_error.ok()) << index_->Stats().last_error;
  }
}

TEST_F(IndexRewrite, ALongRewriteOfAGenerationThatIsDroppedStops) {
  SealWithoutGraph(60'000);
  settings_.hnsw_m = 64;
  settings_.hnsw_ef_construction = 4'000;  // for minutes
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  ASSERT_TRUE(Comes([&] { return index_->Stats().builds_running == 1; }));
  ASSERT_TRUE(index_->DropGeneration(1).ok());
  EXPECT_TRUE(index_->Flush(absl::Now() + absl::Minutes(1)).ok());
  EXPECT_EQ(index_->Stats().builds_running, 0);
}

TEST_F(IndexRewrite, AFlushAfterMendingWaitsForARebuild) {
  SealWithoutGraph(4'000);
  settings_.kind = SealedKind::kFlat;
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/false).ok());
  DamageTheFirstSegment();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("flat"), 4'000);
  settings_.kind = SealedKind::kHnsw;
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(RowsOf("hnsw"), 4'000);
  ExpectEqual("rebuilt");
}

TEST_F(IndexRewrite, WritesToOthersThatNeverPauseDoNotKeepAGenerationDamaged) {
  SealWithoutGraph(4'000);
  const Writing writing(this);
  DamageTheFirstSegment();
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().segments_damaged, 0);
  EXPECT_EQ(RowsOf("hnsw", 1), 4'000);
}

TEST_F(IndexRewrite, WhileOneGenerationIsMendedTheRowsOfOthersAreSealed) {
  SealWithoutGraph(4'000);
  Add(5'001, 1, 2);
  std::atomic<int> rows = 0;
  std::atomic<int64_t> sealed = 0;
  oracle_.before_row = [&] {
    const int row = ++rows;
    if (row == 1) Add(5'002, 400, 2);
    // A batch of rows lies between; the end of mending is far.
    if (row == 2'000) sealed = RowsOf("hnsw", 2);
  };
  DamageTheFirstSegment();
  ASSERT_TRUE(index_->Flush().ok());
  oracle_.before_row = {};
  EXPECT_GE(rows, 4'000) << "nothing was mended";
  EXPECT_GE(sealed, 200);
  ExpectEqual("mended");
}

// Rewrites of an index without a builder, in a pool whose only thread is busy until it is let go.
class QueuedRewrite : public IndexRewrite {
 protected:
  struct Parts {
    Parts(const std::string& folder, const IndexSettings& settings, Oracle* oracle, const IndexLimits& limits)
        : state(folder, settings, oracle, limits) {
      rewrites.Open(pool);
    }
    ~Parts() {
      LetGo();
      rewrites.Close();
    }
    void LetGo() {
      if (!go_on.HasBeenNotified()) go_on.Notify();
    }
    bool IsDone() {
      absl::MutexLock lock(&state.mu);
      return rewrites.IsDone();
    }

    std::shared_ptr<WorkPool> pool = std::make_shared<WorkPool>(1, [] {});
    absl::Notification busy, go_on;
    RecurringWork other{pool, [this] {
                          busy.Notify();
                          go_on.WaitForNotification();
                          return absl::InfiniteDuration();
                        }};
    IndexState state;
    FileChecks checks{state};
    WriteLoad load{state};
    SegmentBuilds builds{state, checks};
    Rewrites rewrites{state, builds, load};
  };

  // A segment of each of two generations. Most rows of generation 1 are deleted: its compaction waits for the thread.
  std::unique_ptr<Parts> QueueACompaction() {
    settings_.kind = SealedKind::kFlat;
    Open();
    Add(1, 50, 1);
    Add(101, 50, 2);
    EXPECT_TRUE(index_->Flush().ok());
    index_.reset();
    auto parts = std::make_unique<Parts>(folder_.path(), settings_, &oracle_, limits_);
    EXPECT_TRUE(parts->busy.WaitForNotificationWithTimeout(absl::Minutes(1)));
    EXPECT_TRUE(IndexLoader(parts->state).Load(generations_).ok());
    {
      absl::MutexLock lock(&parts->state.mu);
      GenerationRows& first = parts->state.generations[1];
      EXPECT_EQ(first.sealed.size(), 1u);
      EXPECT_EQ(parts->state.generations[2].sealed.size(), 1u);
      for (int64_t row = 0; row < 30; ++row) {
        parts->state.SetState(first, {first.sealed.at(0).get(), row}, kDeleted, oracle_.sequence());
      }
      parts->state.Publish();
    }
    parts->rewrites.Start();
    absl::MutexLock lock(&parts->state.mu);
    EXPECT_TRUE(parts->rewrites.IsUnderWay());
    EXPECT_EQ(parts->state.builds.running, 0) << "it has no thread yet";
    return parts;
  }
};

TEST_F(QueuedRewrite, GivesWayToAMoreUrgentOneThatCameSince) {
  const std::unique_ptr<Parts> parts = QueueACompaction();
  uint64_t first = 0, second = 0;
  {
    absl::MutexLock lock(&parts->state.mu);
    first = parts->state.generations[1].sealed.at(0)->id();
    second = parts->state.generations[2].sealed.at(0)->id();
    parts->state.generations[2].sealed.at(0)->set_stale();
  }
  parts->LetGo();
  ASSERT_TRUE(Comes([&] { return parts->IsDone(); }));
  parts->rewrites.Finish();
  {
    absl::MutexLock lock(&parts->state.mu);
    EXPECT_EQ(parts->state.generations[1].sealed.at(0)->id(), first);
    EXPECT_NE(parts->state.generations[2].sealed.at(0)->id(), second) << "the rebuild comes before the compaction";
  }
  parts->rewrites.Start();
  ASSERT_TRUE(Comes([&] { return parts->IsDone(); }));
  parts->rewrites.Finish();
  absl::MutexLock lock(&parts->state.mu);
  EXPECT_EQ(parts->state.generations[1].sealed.at(0)->rows(), 20);
  EXPECT_EQ(parts->state.builds.running, 0);
}

TEST_F(QueuedRewrite, OfADroppedGenerationGoesWithItsSegments) {
  const std::unique_ptr<Parts> parts = QueueACompaction();
  std::weak_ptr<SealedSegment> segment;
  {
    absl::MutexLock lock(&parts->state.mu);
    segment = parts->state.generations[1].sealed.at(0);
  }
  ASSERT_TRUE(GenerationDrop(parts->state).Drop(1).ok());
  parts->rewrites.Cancel(1);
  EXPECT_TRUE(segment.expired()) << "files that are removed stay mapped";
  {
    absl::MutexLock lock(&parts->state.mu);
    EXPECT_FALSE(parts->rewrites.IsUnderWay());
  }
  parts->LetGo();
}

TEST_F(QueuedRewrite, KeepsTheTurnsOfGenerations) {
  const std::unique_ptr<Parts> parts = QueueACompaction();
  uint64_t second = 0;
  {
    absl::MutexLock lock(&parts->state.mu);
    GenerationRows& generation = parts->state.generations[2];
    second = generation.sealed.at(0)->id();
    for (int64_t row = 0; row < 30; ++row) {
      parts->state.SetState(generation, {generation.sealed.at(0).get(), row}, kDeleted, oracle_.sequence());
    }
  }
  parts->LetGo();
  ASSERT_TRUE(Comes([&] { return parts->IsDone(); }));
  parts->rewrites.Finish();
  absl::MutexLock lock(&parts->state.mu);
  EXPECT_EQ(parts->state.generations[1].sealed.at(0)->rows(), 20);
  EXPECT_EQ(parts->state.generations[2].sealed.at(0)->id(), second) << "it was picked twice before generation 2";
}

TEST_F(IndexRewrite, BuildsKeepTheirPaceUnlessWritesWaitForThem) {
  limits_.build_bytes_per_second_max = 1;
  limits_.unsealed_bytes_max = 10'000;
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(Comes([&] { return index_->Stats().builds_running == 1; }));
  for (int i = 0; i < 20'000; ++i) Search(*index_->View(), 1, 1);  // while a build without a pace would be long over
  EXPECT_EQ(index_->Stats().builds_total, 0);
  uint64_t id = 51;
  while (*index_->AwaitRoom(absl::InfinitePast())) Add(id++, 1, 1);
  EXPECT_TRUE(*index_->AwaitRoom(absl::InfiniteFuture()));
  EXPECT_GT(RowsOf("hnsw") + RowsOf("flat"), 0);
  ExpectEqual("with room");
  Add(id, 60, 1);
  ASSERT_TRUE(Comes([&] { return index_->Stats().builds_running == 1; }));
  index_.reset();  // does not wait for the disk either
}

}  // namespace
}  // namespace lightcone
