// An index of small segments over an oracle: what the tests of an index's life and of its damage start from.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/files.h"
#include "gtest/gtest.h"
#include "index/rows/manifest.h"
#include "tests/index/index_testing.h"

namespace lightcone {

inline const Space kSpace{Metric::kLorentz, 8, 1.0, 1.2};
using Generations = std::vector<std::pair<uint32_t, Space>>;

class IndexLife : public testing::Test {
 protected:
  IndexLife() {
    settings_.codes = RowCodes::kInt8;
    settings_.growing_rows_max = 50;
    settings_.hnsw_m = 4;
    settings_.hnsw_ef_construction = 16;
  }

  void Open() {
    index_.reset();
    auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_, limits_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
    ASSERT_TRUE(oracle_.Replay(*index_).ok());
  }

  std::vector<float> Vector() {
    std::normal_distribution<float> normal(0, 0.5);
    std::vector<float> z(8);
    for (float& x : z) x = normal(random_);
    return z;
  }

  void Add(uint64_t first, uint64_t n, uint32_t generation) {
    for (uint64_t id = first; id < first + n; ++id) {
      ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Add(id, generation, Vector())}).ok());
    }
  }

  void ExpectEqual(const std::string& what) { ExpectIndexEquals(oracle_, *index_, generations_, Vector(), what); }

  std::vector<SearchHit> Search(const IndexView& view, uint32_t generation, uint32_t view_generation) {
    const BoundQuery query = Bind(kSpace, std::vector<float>(8, 0.1f));
    SearchRequest request;
    request.query = &query;
    request.generation = generation;
    request.view_generation = view_generation;
    request.k = 100'000;
    request.exact = true;
    const auto result = view.Search(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->hits : std::vector<SearchHit>{};
  }

  // Whether the background work brings this about.
  static bool Comes(const std::function<bool()>& condition) {
    for (const absl::Time give_up = absl::Now() + absl::Minutes(2); absl::Now() < give_up; std::this_thread::yield()) {
      if (condition()) return true;
    }
    return false;
  }

  // One that says that files hold what `sequence` did to generation 1, whatever waits to be sealed of others.
  void AwaitCheckpointOf(uint64_t sequence) {
    ASSERT_TRUE(index_->AddGeneration(1'000, kSpace).ok());  // makes one due
    ASSERT_TRUE(Comes([&] {
      const auto checkpoint = DecodeIndexCheckpoint(ReadFile(folder_.path() + "/index.json", 1 << 20).value_or(""));
      return checkpoint.ok() && !checkpoint->generations.empty() && checkpoint->generations[0].generation == 1 &&
             checkpoint->generations[0].sequence == sequence;
    }));
  }

  std::vector<std::string> Kinds() const {
    std::vector<std::string> kinds;
    for (const SegmentInfo& segment : index_->Stats().segments) kinds.push_back(segment.kind);
    return kinds;
  }

  TemporaryFolder folder_;
  IndexSettings settings_;
  IndexLimits limits_;
  Generations generations_ = {{1, kSpace}, {2, kSpace}};
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
  std::mt19937 random_{7};
};

}  // namespace lightcone
