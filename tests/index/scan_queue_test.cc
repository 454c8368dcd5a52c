// Scans of concurrent searches that are taken together: who scans, who waits, and what comes of deadlines and
// exceptions.
#include "index/search/scan_queue.h"

#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr ScanQueue::Rows kRows{&kRows, 1'000'000, 1 << 30}, kOtherRows{&kOtherRows, 1'000'000, 1 << 30};

// A queue with one core, and callers of it whose scans note what they are given.
class ScanQueueOfOneCore : public ::testing::Test {
 protected:
  // Scans are known by their numbers: the queue never looks at them.
  static SegmentScan* Numbered(int* number) { return reinterpret_cast<SegmentScan*>(number); }
  static int NumberOf(SegmentScan* scan) { return *reinterpret_cast<int*>(scan); }

  // `before` runs in the scan; it may release others. What Run says.
  using Before = std::function<void(std::span<SegmentScan* const>, ScanQueue::Release)>;
  bool Call(
      int number, ScanQueue::Rows rows = kRows, const Before& before = {},
      const std::function<bool()>& gave_up = [] { return false; }, size_t queries = 1) {
    const auto scan_all = [&](std::span<SegmentScan* const> scans, ScanQueue::Release release) {
      {
        absl::MutexLock lock(&mu_);
        std::vector<int>& together = scanned_.emplace_back();
        for (SegmentScan* one : scans) together.push_back(NumberOf(one));
      }
      if (before) before(scans, release);
    };
    const auto asked = [&] {
      absl::MutexLock lock(&mu_);
      waiting_.insert(number);
      return gave_up();
    };
    return queue_.Run(rows, Numbered(&number), queries, scan_all, asked);
  }
  // A scan that begins and then waits for `go`.
  Before Held() {
    return [this](auto, auto) {
      entered_.Notify();
      go_.WaitForNotification();
    };
  }

  // Until these callers wait.
  void AwaitWaiting(size_t callers) {
    const auto wait = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return waiting_.size() >= callers; };
    absl::MutexLock lock(&mu_, absl::Condition(&wait));
  }

  ScanQueue queue_{1};
  absl::Notification entered_, go_;
  absl::Mutex mu_;
  std::vector<std::vector<int>> scanned_;
  std::set<int> waiting_;  // that were asked whether they give up
};

TEST_F(ScanQueueOfOneCore, TakesWhatWaitsForTheSameRowsTogether) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  {
    std::vector<std::jthread> others;
    for (int i = 2; i <= 5; ++i) others.emplace_back([&, i] { Call(i, i == 4 ? kOtherRows : kRows); });
    AwaitWaiting(4);
    go_.Notify();
  }
  first.join();
  ASSERT_THAT(scanned_, SizeIs(3));
  EXPECT_THAT(scanned_[0], ElementsAre(1));
  std::vector<std::vector<int>> rest = {scanned_[1], scanned_[2]};
  for (std::vector<int>& together : rest) std::sort(together.begin(), together.end());
  EXPECT_THAT(rest, UnorderedElementsAre(ElementsAre(2, 3, 5), ElementsAre(4)));
}

TEST_F(ScanQueueOfOneCore, TakesNoMoreQueriesTogetherThanALateCallMayWaitFor) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  {
    std::vector<std::jthread> others;
    for (int i = 2; i <= 5; ++i) {
      others.emplace_back([&, i] {
        Call(
            i, kRows, {}, [] { return false; }, ScanQueue::kQueriesMax / 2);
      });
    }
    AwaitWaiting(4);
    go_.Notify();
  }
  first.join();
  ASSERT_THAT(scanned_, SizeIs(3));
  EXPECT_THAT(scanned_[1], SizeIs(2));
  EXPECT_THAT(scanned_[2], SizeIs(2));
}

TEST_F(ScanQueueOfOneCore, LetsGoOfACallerThatGivesUp) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  EXPECT_FALSE(Call(2, kRows, {}, [] { return true; }));  // returns while the first still scans
  go_.Notify();
  first.join();
  EXPECT_THAT(scanned_, ElementsAre(ElementsAre(1)));
  Call(3);
  EXPECT_THAT(scanned_, ElementsAre(ElementsAre(1), ElementsAre(3)));
}

TEST_F(ScanQueueOfOneCore, LetsGoOfACallerThatIsReleasedWhileTheScanGoesOn) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  absl::Notification released;
  const auto release_others = [&](std::span<SegmentScan* const> scans, ScanQueue::Release release) {
    for (SegmentScan* other : scans.subspan(1)) release(other);
    if (scans.size() > 1) released.WaitForNotification();
  };
  std::atomic<int> back = 0;
  std::vector<std::jthread> others;
  for (int i = 2; i <= 3; ++i) {
    others.emplace_back([&, i] {
      EXPECT_TRUE(Call(i, kRows, release_others));
      if (++back == 1) released.Notify();  // the other one still scans
    });
  }
  AwaitWaiting(2);
  go_.Notify();
  others.clear();
  EXPECT_EQ(back, 2);
  EXPECT_THAT(scanned_, SizeIs(2));
}

TEST_F(ScanQueueOfOneCore, TellsThoseThatWaitedForAScanThatThrows) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  std::atomic<int> thrown = 0, failed = 0;
  {
    std::vector<std::jthread> others;
    for (int i = 2; i <= 3; ++i) {
      others.emplace_back([&, i] {
        try {
          failed += !Call(i, kRows, [](auto, auto) { throw std::bad_alloc(); });
        } catch (const std::bad_alloc&) {
          ++thrown;
        }
      });
    }
    AwaitWaiting(2);
    go_.Notify();
  }
  EXPECT_EQ(thrown, 1);  // one scanned for both
  EXPECT_EQ(failed, 1);
  EXPECT_TRUE(Call(4));  // the core is free again
  EXPECT_THAT(scanned_.back(), ElementsAre(4));
}

TEST_F(ScanQueueOfOneCore, NeitherFewRowsNorAThreadOfLowPriorityWait) {
  std::jthread first([&] { Call(1, kRows, Held()); });
  entered_.WaitForNotification();
  Call(2, {&kRows, 100, ScanQueue::kBytesMin - 1});
  std::jthread([&] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + 1), 0);
    Call(3);
  }).join();
  EXPECT_THAT(scanned_, ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));  // the first still scans
  go_.Notify();
}

// Through the index, with more callers than cores and enough rows to wait for each other.
class SharedScans : public testing::TestWithParam<RowCodes> {};

TEST_P(SharedScans, GiveEachCallerTheAnswerThatItHasAlone) {
  TemporaryFolder folder;
  const Space space{Metric::kLorentz, 64, 1.0, 1.2};
  IndexSettings settings;
  settings.kind = SealedKind::kFlat;
  settings.codes = GetParam();
  settings.growing_rows_max = 10'000;
  Oracle oracle;
  auto index = CollectionIndex::Open(folder.path(), settings, {{1, space}}, &oracle);
  ASSERT_TRUE(index.ok()) << index.status();
  const int64_t kItems = GetParam() == RowCodes::kFloat32 ? 40'000 : 120'000;  // 8 MiB and more
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.2f);
  const auto draw = [&] {
    std::vector<float> z(64);
    for (float& value : z) value = normal(random);
    return z;
  };
  for (int64_t begin = 0; begin < kItems; begin += 1'000) {
    Oracle::Batch batch;
    for (int64_t i = begin; i < begin + 1'000; ++i) batch.push_back(Oracle::Add(static_cast<uint64_t>(i), 1, draw()));
    ASSERT_TRUE(oracle.Write(index->get(), std::move(batch)).ok());
  }
  ASSERT_TRUE((*index)->Flush().ok());
  const auto view = (*index)->View();
  std::vector<BoundQuery> queries;
  for (int q = 0; q < 8; ++q) queries.push_back(*BoundQuery::Make(space, space, draw()));
  const auto search = [&](const BoundQuery& query, absl::Time deadline) {
    SearchRequest request;
    request.query = &query;
    request.generation = request.view_generation = 1;
    request.exact = true;
    request.deadline = deadline;
    return view->Search(request);
  };
  std::vector<std::vector<SearchHit>> alone;
  for (const BoundQuery& query : queries) alone.push_back(search(query, absl::InfiniteFuture())->hits);
  std::vector<std::jthread> callers;
  std::atomic<int> different = 0, late = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    callers.emplace_back([&, q] {
      for (int round = 0; round < 30; ++round) {
        const bool hurried = round % 5 == 4;  // some have no time, beside those that have
        const auto result =
            search(queries[q], hurried ? absl::Now() + absl::Microseconds(200) : absl::InfiniteFuture());
        if (!result.ok()) {
          different += !hurried || !absl::IsDeadlineExceeded(result.status());
          ++late;
          continue;
        }
        bool same = result->hits.size() == alone[q].size();
        for (size_t i = 0; same && i < alone[q].size(); ++i) {
          same = result->hits[i].internal_id == alone[q][i].internal_id &&
                 result->hits[i].distance == alone[q][i].distance;
        }
        different += !same;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(different, 0);
  EXPECT_GT(late, 0);
}

INSTANTIATE_TEST_SUITE_P(ByVectorsAndByCodes, SharedScans, testing::Values(RowCodes::kFloat32, RowCodes::kInt8));

}  // namespace
}  // namespace lightcone
