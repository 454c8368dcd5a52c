// Sealing, merging, compaction, views, replay, damage, concurrency and disk errors.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/index/index_life_testing.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

TEST_F(IndexLife, AFullGrowingSegmentIsSealedAndTheRestSealedByFlush) {
  Open();
  Add(1, 120, 1);
  ExpectEqual("while builds run");
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_THAT(Kinds(), Each("hnsw"));
  const IndexStats stats = index_->Stats();
  EXPECT_EQ(stats.sealed_sequence, 120u);
  EXPECT_GT(stats.builds_total, 0);
  EXPECT_GT(stats.mapped_bytes, 120 * 32);
  EXPECT_TRUE(stats.last_error.ok());
  ExpectEqual("after the flush");
  EXPECT_EQ(index_->View()->sequence(), 120u);
  EXPECT_THAT(index_->View()->Generations(2), testing::ElementsAre(1u));
}

TEST_F(IndexLife, SmallSegmentsAreMergedAndOldFoldersGo) {
  settings_.kind = SealedKind::kFlat;
  Open();
  for (uint64_t i = 0; i < 8; ++i) {
    Add(1 + 10 * i, 10, 1);
    ASSERT_TRUE(index_->Flush().ok());
  }
  EXPECT_LT(index_->Stats().segments.size(), 4u);
  EXPECT_THAT(Kinds(), Each("flat"));
  size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path() + "/segments")) folders += entry.is_directory();
  EXPECT_EQ(folders, index_->Stats().segments.size());
  ExpectEqual("after merging");
}

TEST_F(IndexLife, AGenerationWithMuchToSealLeavesTheOthersTheirTurns) {
  settings_.growing_rows_max = settings_.merge_rows_max = 50;  // a growing segment a job, and no merging
  Open();
  Add(1, 50, 2);
  Add(101, 20 * 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  // Ids ascend in the order in which segments were begun.
  std::vector<uint64_t> busy, other;
  for (const SegmentInfo& segment : index_->Stats().segments) {
    EXPECT_NE(segment.kind, "growing");
    (segment.generation == 1 ? busy : other).push_back(segment.id);
  }
  ASSERT_EQ(busy.size(), 20u);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_LE(std::count_if(busy.begin(), busy.end(), [&](uint64_t id) { return id < other[0]; }), 1);
  ExpectEqual("after the turns");
}

TEST_F(IndexLife, ASegmentWithManyDeletedRowsIsCompacted) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  for (uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
  ASSERT_TRUE(index_->Flush().ok());
  const IndexStats stats = index_->Stats();
  ASSERT_EQ(stats.segments.size(), 1u);
  EXPECT_EQ(stats.segments[0].rows - stats.segments[0].dead_rows, 30);
  EXPECT_LT(stats.segments[0].rows, 50);
  ExpectEqual("compacted");
  for (uint64_t id = 21; id <= 50; ++id) ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_TRUE(index_->Stats().segments.empty());
  Open();
  ExpectEqual("empty again");
}

TEST_F(IndexLife, AViewKeepsShowingWhatItPinned) {
  Open();
  Add(1, 70, 1);
  const std::shared_ptr<const IndexView> old = index_->View();
  const std::vector<SearchHit> before = Search(*old, 1, 2);
  ASSERT_EQ(before.size(), 70u);
  Add(1, 30, 2);  // superseded
  for (uint64_t id = 31; id <= 50; ++id) ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
  Add(51, 10, 1);   // replaced
  Add(100, 10, 1);  // new
  ExpectSameHits(Search(*old, 1, 2), before, "before the flush");
  ASSERT_TRUE(index_->Flush().ok());
  ExpectSameHits(Search(*old, 1, 2), before, "after the flush");
  EXPECT_EQ(old->VisibleRows(1, 2), 70);
  EXPECT_EQ(old->VisibleRows(2, 2), 0);
  ExpectEqual("the new view");
}

// The embedding that took a row's place and the row go at the same time: neither view may show both or none.
TEST_F(IndexLife, ASupersededRowStaysHiddenFromAViewWhenItsItemGoesLater) {
  for (const bool sealed : {false, true}) {
    Open();
    const uint64_t first = sealed ? 101 : 1;
    const std::shared_ptr<const IndexView> oldest = (Add(first, 20, 1), index_->View());
    Add(first, 20, 2);
    if (sealed) {
      ASSERT_TRUE(index_->Flush().ok());
    }
    const std::shared_ptr<const IndexView> old = index_->View();
    const auto expect_old = [&](const std::string& what) {
      EXPECT_EQ(Search(*oldest, 1, 2).size(), 20u) << what;
      EXPECT_EQ(Search(*oldest, 2, 2).size(), 0u) << what;
      EXPECT_EQ(Search(*old, 1, 2).size(), 0u) << what;
      EXPECT_EQ(Search(*old, 2, 2).size(), 20u) << what;
      EXPECT_EQ(Search(*old, 1, 1).size(), 20u) << what;
    };
    for (uint64_t id = first; id < first + 10; ++id) {
      ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
    }
    expect_old("half deleted");
    const std::shared_ptr<const IndexView> half = index_->View();
    ASSERT_TRUE(index_->Flush().ok());  // compacts; what happened to each row, and when, goes along
    const std::shared_ptr<const IndexView> compacted = index_->View();
    for (uint64_t id = first + 10; id < first + 20; ++id) {
      ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(id)}).ok());
    }
    expect_old("all deleted");
    for (const auto& view : {half, compacted}) {
      EXPECT_EQ(Search(*view, 1, 2).size(), 0u);
      EXPECT_EQ(Search(*view, 2, 2).size(), 10u);
      EXPECT_EQ(Search(*view, 1, 1).size(), 10u);
    }
    ExpectEqual("the new view");
  }
}

TEST_F(IndexLife, AStateFileThatIsAheadOfTheCheckpointTellsHowFar) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  const std::string checkpoint = folder_.path() + "/index.json";
  const absl::StatusOr<std::string> before = ReadFile(checkpoint, 1 << 20);
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(7)}).ok());
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  // As after a power loss between the writing of the state file and that of the checkpoint.
  ASSERT_TRUE(WriteFileAtomically(checkpoint, *before).ok());
  Open();
  EXPECT_EQ(index_->replay_after(), 50u);
  EXPECT_EQ(index_->newest_sequence_in_files(), 51u);
  EXPECT_EQ(index_->Stats().rebuilds_total, 0);
  ExpectEqual("replayed");
}

TEST_F(IndexLife, AFlushStopsWaitingWhenItsCallerDoes) {
  Open();
  Add(1, 10, 1);
  EXPECT_EQ(index_->Flush(absl::Now() - absl::Seconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(index_->Flush(absl::InfiniteFuture(), [] { return true; }).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(index_->Flush(absl::Now() + absl::Minutes(1), [] { return false; }).ok());
  EXPECT_THAT(Kinds(), Each("hnsw"));
}

TEST_F(IndexLife, AFlushEndsBesideWritesThatNeverDo) {
  settings_.kind = SealedKind::kFlat;
  Open();
  Add(1, 500, 1);
  Add(1, 120, 2);
  // The rows of one generation, over and over: always some segments ahead of the builder, and not many.
  constexpr int kRounds = 1'000;
  std::atomic<bool> stop{false};
  int rounds = 0;
  std::thread writer([&] {
    for (; rounds < kRounds && !stop.load(); ++rounds) {
      Add(1 + static_cast<uint64_t>(rounds % 10) * 50, 50, 1);
      while (!stop.load() && Kinds().size() > 20) std::this_thread::yield();
    }
  });
  IndexSettings other = settings_;
  other.kind = SealedKind::kHnsw;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(index_->Reconfigure(i % 2 == 0 ? other : settings_, /*rebuild_now=*/true).ok());
    EXPECT_TRUE(index_->Flush().ok());
    // Nobody writes to the other: what was rebuilt of it stays.
    for (const SegmentInfo& segment : index_->Stats().segments) {
      if (segment.generation != 2) continue;
      EXPECT_EQ(segment.kind, i % 2 == 0 ? "hnsw" : "flat");
    }
  }
  stop.store(true);
  writer.join();
  EXPECT_LT(rounds, kRounds) << "a flush waited for the end of the writes";
  ASSERT_TRUE(index_->Flush().ok());
  ExpectEqual("after the flushes");
}

TEST_F(IndexLife, ARollbackIsAnotherView) {
  Open();
  Add(1, 60, 1);
  Add(1, 40, 2);
  for (const bool flushed : {false, true}) {
    if (flushed) {
      ASSERT_TRUE(index_->Flush().ok());
    }
    EXPECT_EQ(Search(*index_->View(), 1, 2).size(), 20u);
    EXPECT_EQ(Search(*index_->View(), 2, 2).size(), 40u);
    EXPECT_EQ(Search(*index_->View(), 1, 1).size(), 60u);
  }
}

TEST_F(IndexLife, AnOlderEmbeddingThatComesLateIsSupersededAtOnce) {
  Open();
  Add(5, 1, 2);
  Add(5, 1, 1);
  EXPECT_EQ(Search(*index_->View(), 1, 2).size(), 0u);
  EXPECT_EQ(Search(*index_->View(), 1, 1).size(), 1u);
  ExpectEqual("late");
}

TEST_F(IndexLife, ADroppedGenerationGoesAndWhatItSupersededComesBack) {
  generations_ = {{1, kSpace}, {2, kSpace}, {3, kSpace}};
  Open();
  Add(1, 60, 1);
  Add(1, 20, 2);
  Add(1, 10, 3);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->PrepareDrop(2, [] { return true; }).code(), absl::StatusCode::kCancelled);
  ExpectEqual("interrupted");
  ASSERT_TRUE(index_->PrepareDrop(2, [] { return false; }).ok());
  ExpectEqual("prepared");
  ASSERT_TRUE(index_->DropGeneration(2).ok());
  EXPECT_EQ(index_->DropGeneration(2).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(index_->PrepareDrop(2, [] { return false; }).code(), absl::StatusCode::kNotFound);
  oracle_.DropGeneration(2);
  generations_ = {{1, kSpace}, {3, kSpace}};
  ExpectEqual("dropped");
  Open();
  ExpectEqual("dropped, before the checkpoint");
  ASSERT_TRUE(index_->Flush().ok());
  Open();
  ExpectEqual("dropped, opened again");
  ASSERT_TRUE(index_->AddGeneration(4, kSpace).ok());
  generations_.push_back({4, kSpace});
  Add(1, 30, 4);
  ExpectEqual("a new one");
  Open();
  ExpectEqual("a new one, opened again");
  EXPECT_EQ(index_->AddGeneration(4, Space{Metric::kCosine, 8}).code(), absl::StatusCode::kAlreadyExists);
}

// What an older generation's rows become when its files, or a generation between, are gone is found before the log is
// replayed: it has to be put right by what the log holds of newer ones.
TEST_F(IndexLife, AKillAfterADropDoesNotBringBackWhatUnsealedRowsSupersede) {
  generations_ = {{1, kSpace}, {2, kSpace}, {3, kSpace}};
  Open();
  Add(1, 40, 1);
  Add(1, 40, 2);
  ASSERT_TRUE(index_->Flush().ok());
  Add(1, 30, 3);
  AwaitCheckpointOf(110);
  index_.reset();  // before the drop is in files
  oracle_.DropGeneration(2);
  generations_ = {{1, kSpace}, {3, kSpace}};
  Open();
  EXPECT_EQ(index_->replay_after(), 80u) << "generation 3 is in the log alone";
  ExpectEqual("killed after the drop");
  ASSERT_TRUE(index_->Flush().ok());
  Open();
  ExpectEqual("with its states in files");
}

TEST_F(IndexLife, ASegmentRebuiltAtAStartStaysSupersededByUnsealedRows) {
  Open();
  Add(1, 40, 1);
  ASSERT_TRUE(index_->Flush().ok());
  Add(1, 30, 2);
  const std::string segment = StrCat(folder_.path(), "/segments/", index_->Stats().segments.front().id);
  AwaitCheckpointOf(70);
  index_.reset();
  ASSERT_GT(fs::remove_all(segment), 0u);
  Open();
  EXPECT_EQ(index_->Stats().rebuilds_total, 1);
  ExpectEqual("rebuilt");
}

TEST_F(IndexLife, RandomWritesSurviveAnyNumberOfCrashes) {
  Open();
  uint64_t next_id = 1;
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < 40; ++i) {
      Oracle::Batch batch;
      for (int j = 0; j < 3; ++j) {
        const uint64_t old = 1 + random_() % next_id;
        switch (random_() % 8) {
          case 0:
            batch.push_back(Oracle::Delete(old));
            break;
          case 1:
            batch.push_back(Oracle::Add(old, 1 + random_() % 2, Vector()));
            break;
          case 2:  // new content under a new internal id
            batch.push_back(Oracle::Delete(old));
            batch.push_back(Oracle::Add(next_id++, 2, Vector()));
            break;
          default:
            batch.push_back(Oracle::Add(next_id++, 1 + random_() % 2, Vector()));
        }
      }
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    }
    if (round % 7 == 3) {
      ASSERT_TRUE(index_->Flush().ok());
    }
    ExpectEqual(StrCat("round ", round));
    Open();  // The old index goes without any farewell; what it had not written comes back by replay.
    ExpectEqual(StrCat("round ", round, " opened again"));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(index_->replay_after(), 0u);
}

TEST_F(IndexLife, AFlushedIndexOpensWithoutTheStore) {
  Open();
  Add(1, 120, 1);
  Add(1, 60, 2);
  ASSERT_TRUE(index_->Flush().ok());
  const int scans = oracle_.scans;
  Open();
  EXPECT_EQ(oracle_.scans, scans);
  EXPECT_EQ(index_->replay_after(), oracle_.sequence());
  EXPECT_EQ(index_->newest_sequence_in_files(), oracle_.sequence());
  EXPECT_EQ(index_->Stats().rebuilds_total, 0);
  ExpectEqual("opened");
}

TEST_F(IndexLife, ALostFolderIsRebuiltFromTheStore) {
  Open();
  Add(1, 120, 1);
  Add(1, 60, 2);
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  fs::remove_all(folder_.path());
  Open();
  ExpectEqual("from the store");
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_THAT(Kinds(), Each("hnsw"));
  const int scans = oracle_.scans;
  Open();
  EXPECT_EQ(oracle_.scans, scans);
  ExpectEqual("sealed again");
}

TEST_F(IndexLife, LeftoversOfACrashedBuildAreRemoved) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  fs::create_directories(folder_.path() + "/segments/77.tmp");
  fs::create_directories(folder_.path() + "/segments/99");
  Open();
  EXPECT_FALSE(fs::exists(folder_.path() + "/segments/77.tmp"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/segments/99"));
  ExpectEqual("cleaned");
}

TEST_F(IndexLife, ALeftoverThatCannotBeRemovedKeepsNoIndexShutAndItsNumberIsNotUsed) {
  Open();
  Add(1, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  // Deeper than there are descriptors to go down by, which stands for a bad inode.
  const std::string leftover = folder_.path() + "/segments/99";
  std::string deep = leftover;
  for (int i = 0; i < 400; ++i) deep += "/d";
  fs::create_directories(deep);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  {
    const absl::Cleanup restore = [&] { setrlimit(RLIMIT_NOFILE, &before); };
    const rlimit few{std::min<rlim_t>(256, before.rlim_max), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    Open();
    EXPECT_TRUE(fs::exists(leftover));
  }
  ExpectEqual("with a leftover");
  Add(100, 50, 1);
  ASSERT_TRUE(index_->Flush().ok());
  uint64_t newest = 0;
  for (const SegmentInfo& segment : index_->Stats().segments) newest = std::max<uint64_t>(newest, segment.id);
  EXPECT_GT(newest, 99u);
  Open();
  EXPECT_FALSE(fs::exists(leftover)) << "the next start tries again";
  ExpectEqual("cleaned");
}

TEST_F(IndexLife, ADiskErrorOfTheBuilderIsReportedAndRetriedAndNothingIsLost) {
  // The folder is a link, which one rename turns to a file and back: the builder, which tries again at any time, finds
  // either of them and never nothing. Writing into a file fails whoever runs the test.
  const std::string segments = folder_.path() + "/segments";
  const auto lead_to = [&](const std::string& target) {
    fs::create_symlink(target, segments + ".new");
    fs::rename(segments + ".new", segments);
  };
  fs::create_directory(segments + ".real");
  std::ofstream(segments + ".file") << "in the way";
  lead_to("segments.real");
  Open();
  Add(1, 30, 1);
  ASSERT_TRUE(index_->Flush().ok());
  lead_to("segments.file");
  Add(100, 120, 1);
  EXPECT_FALSE(index_->Flush().ok());
  EXPECT_FALSE(index_->Stats().last_error.ok());
  EXPECT_THAT(MessageOf(index_->Stats().last_error), HasSubstr("segments"));
  EXPECT_LE(index_->Stats().sealed_sequence, 30u);
  ExpectEqual("with a broken disk");
  lead_to("segments.real");
  EXPECT_TRUE(index_->Flush().ok());
  EXPECT_TRUE(index_->Stats().last_error.ok());
  EXPECT_THAT(Kinds(), Each("hnsw"));
  ExpectEqual("mended");
}

TEST_F(IndexLife, ARebuildWithoutDescriptorsSaysThatTheyAreUsedUpAndIsTriedAgainByItself) {
  settings_.kind = SealedKind::kFlat;
  Open();
  Add(1, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  settings_.kind = SealedKind::kHnsw;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  {
    const absl::Cleanup restore = [&] { setrlimit(RLIMIT_NOFILE, &before); };
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    ASSERT_TRUE(index_->Reconfigure(settings_, true).ok());
    EXPECT_EQ(index_->Flush().code(), absl::StatusCode::kResourceExhausted);
  }
  ExpectEqual("without descriptors");
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (Kinds() != std::vector<std::string>{"hnsw"} && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(Kinds(), std::vector<std::string>{"hnsw"});
  ExpectEqual("rebuilt");
}

TEST_F(IndexLife, ReconfigureRebuildsSealedSegmentsAsOne) {
  settings_.kind = SealedKind::kFlat;
  Open();
  Add(1, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  Add(61, 60, 1);
  ASSERT_TRUE(index_->Flush().ok());
  settings_.kind = SealedKind::kHnsw;
  ASSERT_TRUE(index_->Reconfigure(settings_, true).ok());
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(Kinds(), std::vector<std::string>{"hnsw"});
  ExpectEqual("as graphs");
}

// Every batch moves an item to a new internal id. A view must always show exactly one version of each.
TEST_F(IndexLife, SearchesBesideWritesAndBuildsSeeWholeBatchesOnly) {
  constexpr uint64_t kItems = 64;
  Open();
  Add(1, kItems, 1);
  std::atomic<bool> stop{false};
  std::atomic<int> searches{0};
  const auto search = [&] {
    while (!stop.load()) {
      const auto view = index_->View();
      ASSERT_EQ(Search(*view, 1, 1).size(), kItems);
      ASSERT_EQ(view->VisibleRows(1, 1), static_cast<int64_t>(kItems));
      ++searches;
    }
  };
  std::thread first(search), second(search);
  uint64_t next_id = kItems + 1;
  for (int i = 0; i < 2000 || searches.load() < 50; ++i) {
    const uint64_t oldest = oracle_.items().begin()->first;
    ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Delete(oldest), Oracle::Add(next_id++, 1, Vector())}).ok());
  }
  stop.store(true);
  first.join();
  second.join();
  ASSERT_TRUE(index_->Flush().ok());
  ExpectEqual("at rest");
}

TEST_F(IndexLife, BadRequestsAreRefused) {
  Open();
  Add(1, 10, 1);
  const BoundQuery query = Bind(kSpace, Vector());
  const auto view = index_->View();
  SearchRequest good;
  good.query = &query;
  good.generation = good.view_generation = 1;
  ASSERT_TRUE(view->Search(good).ok());

  SearchRequest request = good;
  request.k = 0;
  EXPECT_EQ(MessageOf(view->Search(request).status()), "field 'k' is 0; allowed: 1 or more");
  request = good;
  request.generation = 9;
  EXPECT_EQ(view->Search(request).status().code(), absl::StatusCode::kNotFound);
  request = good;
  request.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(view->Search(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  request = good;
  const std::function<bool()> cancelled = [] { return true; };
  request.cancelled = &cancelled;
  EXPECT_EQ(view->Search(request).status().code(), absl::StatusCode::kCancelled);
  const Space other{Metric::kCosine, 8};
  const BoundQuery foreign = Bind(other, Vector());
  request = good;
  request.query = &foreign;
  EXPECT_EQ(view->Search(request).status().code(), absl::StatusCode::kFailedPrecondition);

  const std::vector<float> shorter(7, 0.0f);
  RowChange change;
  change.internal_id = 11;
  change.generation = 1;
  change.z = shorter;
  EXPECT_EQ(index_->Apply(11, {&change, 1}).code(), absl::StatusCode::kInvalidArgument);
  IndexSettings settings;
  settings.hnsw_m = 1;
  EXPECT_EQ(MessageOf(index_->Reconfigure(settings, false)), "field 'hnsw_m' is 1; allowed: 2 .. 128");
  settings = {};
  settings.tombstones_share_max = std::nan("");
  EXPECT_EQ(settings.Validate().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lightcone
