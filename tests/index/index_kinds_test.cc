// What holds for sealed segments of every kind and codes: history, crashes, damage, and a change from one to another
// under load.
#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::Field;

struct Choice {
  SealedKind kind;
  RowCodes codes;
};

class IndexKinds : public testing::TestWithParam<Choice> {
 protected:
  static constexpr int kDimension = 24;
  IndexKinds() {
    Choose(GetParam());
    settings_.growing_rows_max = 60;
    settings_.hnsw_m = 4;
    settings_.hnsw_ef_construction = 16;
  }

  void Choose(const Choice& choice) {
    settings_.kind = choice.kind;
    settings_.codes = choice.codes;
  }

  void Open() {
    index_.reset();
    auto index = CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
    ASSERT_TRUE(oracle_.Replay(*index_).ok());
  }

  std::vector<float> Vector() {
    std::normal_distribution<float> normal(0, 0.3f);
    std::vector<float> z(kDimension);
    for (float& x : z) x = normal(random_);
    return z;
  }

  void Write(int batches) {
    for (int i = 0; i < batches; ++i) {
      const uint64_t old = 1 + random_() % next_id_;
      Oracle::Batch batch;
      if (random_() % 5 == 0) batch.push_back(Oracle::Delete(old));
      if (random_() % 4 == 0) batch.push_back(Oracle::Add(old, 2, Vector()));
      batch.push_back(Oracle::Add(next_id_++, 1, Vector()));
      ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
    }
  }

  void ExpectEqual(const std::string& what) { ExpectIndexEquals(oracle_, *index_, generations_, Vector(), what); }

  void ExpectKind(const Choice& choice) {
    ASSERT_TRUE(index_->Flush().ok());
    const std::vector<SegmentInfo> segments = index_->Stats().segments;
    ASSERT_FALSE(segments.empty());
    EXPECT_THAT(segments, Each(AllOf(Field(&SegmentInfo::kind, SealedKindName(choice.kind)),
                                     Field(&SegmentInfo::codes, RowCodesName(choice.codes)))));
  }

  const Space space_{Metric::kLorentz, kDimension, 1.0, 1.2};
  const std::vector<std::pair<uint32_t, Space>> generations_ = {{1, space_}, {2, space_}};
  TemporaryFolder folder_;
  IndexSettings settings_;
  Oracle oracle_;
  std::unique_ptr<CollectionIndex> index_;
  std::mt19937 random_{11};
  uint64_t next_id_ = 1;
};

TEST_P(IndexKinds, RowsThatChangeAreFoundInSealedSegmentsBeforeAndAfterCrashes) {
  Open();
  for (int round = 0; round < 6; ++round) {
    Write(80);
    if (round % 2 == 0) {
      ASSERT_TRUE(index_->Flush().ok());
    }
    ExpectEqual(StrCat("round ", round));
    Open();  // The old index goes without any farewell.
    ExpectEqual(StrCat("round ", round, " opened again"));
    if (HasFatalFailure()) return;
  }
  ExpectKind(GetParam());
}

TEST_P(IndexKinds, ASearchFindsKRowsWhateverTheFilterAndTheBreadth) {
  Open();
  Write(400);
  ASSERT_TRUE(index_->Flush().ok());
  for (const uint64_t modulus : {1u, 7u, 100u, 100'000u}) {
    for (const int breadth : {0, 1, 2, 1000}) {
      const BoundQuery query = Bind(space_, Vector());
      SearchRequest request;
      request.query = &query;
      request.generation = request.view_generation = 1;
      request.k = 5;
      request.ef = request.nprobe = breadth;
      request.keep = [modulus](uint64_t id, float) { return id % modulus == 0; };
      const auto found = index_->View()->Search(request);
      ASSERT_TRUE(found.ok()) << found.status();
      const auto all = oracle_.BruteForce(query, 1, 1, request.k, request.keep);
      EXPECT_EQ(found->hits.size(), all.size()) << modulus << " " << breadth;
      for (const SearchHit& hit : found->hits) EXPECT_EQ(hit.internal_id % modulus, 0u);
    }
  }
}

TEST_P(IndexKinds, AFlippedBitOfAnyFileIsNoticedAndTheSegmentRebuilt) {
  Open();
  Write(60);
  ASSERT_TRUE(index_->Flush().ok());
  index_.reset();
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() + "/segments")) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder_.path()).string());
  }
  for (const std::string& file : files) {
    TemporaryFolder copy;
    fs::copy(folder_.path(), copy.path(), fs::copy_options::recursive);
    const std::string path = copy.path() + "/" + file;
    std::string bytes = ReadFile(path, 1 << 20).value();
    bytes[bytes.size() / 3] ^= 0x10;
    std::ofstream(path, std::ios::binary) << bytes;
    auto index = CollectionIndex::Open(copy.path(), settings_, generations_, &oracle_);
    ASSERT_TRUE(index.ok()) << file << ": " << index.status();
    ASSERT_TRUE(oracle_.Replay(**index).ok());
    ASSERT_TRUE((*index)->Flush().ok());  // waits for the checks, too
    EXPECT_GE((*index)->Stats().rebuilds_total, 1) << file;
    ExpectIndexEquals(oracle_, **index, generations_, Vector(), file + ", rebuilt");
    if (HasFatalFailure()) return;
  }
}

TEST_P(IndexKinds, ARebuildWhileSegmentsAreSealedChangesEveryOneOfThemAndNoAnswer) {
  Open();
  Write(60);
  std::atomic<bool> stop{false};
  std::atomic<int> searches{0};
  const BoundQuery query = Bind(space_, Vector());
  const std::vector<SearchHit> nearest = oracle_.BruteForce(query, 1, 1, 1);
  std::thread searcher([&] {
    SearchRequest request;
    request.query = &query;
    request.generation = request.view_generation = 1;
    request.k = 1;
    request.exact = true;
    for (; !stop.load(); ++searches) {
      const auto found = index_->View()->Search(request);
      ASSERT_TRUE(found.ok());
      ASSERT_LE(found->hits.at(0).distance, nearest.at(0).distance);
    }
  });
  // Rows come all the time, so that segments are being built whenever the settings change; none is deleted, so that
  // what is nearest only comes nearer.
  for (int i = 0; i < 300 || searches.load() < 20; ++i) {
    ASSERT_TRUE(oracle_.Write(index_.get(), {Oracle::Add(next_id_++, 1, Vector())}).ok());
    if (i % 20 != 0) continue;
    Choose(i % 40 == 0 ? Choice{SealedKind::kFlat, RowCodes::kFloat32} : GetParam());
    ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  }
  Choose(GetParam());
  ASSERT_TRUE(index_->Reconfigure(settings_, /*rebuild_now=*/true).ok());
  stop.store(true);
  searcher.join();
  ExpectKind(GetParam());
  ExpectEqual("at rest");
}

class IndexMemory : public IndexKinds {};

TEST_P(IndexMemory, DecidesTheKindOnlineAndALimitBelowTheNeedIsRefusedWithBothFigures) {
  settings_.growing_rows_max = 12'000;
  Open();
  Oracle::Batch batch;
  for (int i = 0; i < 10'500; ++i) batch.push_back(Oracle::Add(next_id_++, 1, Vector()));
  ASSERT_TRUE(oracle_.Write(index_.get(), std::move(batch)).ok());
  ExpectKind({SealedKind::kHnsw, RowCodes::kInt8});
  EXPECT_THAT(index_->Stats().choice, testing::HasSubstr("hnsw with codes int8"));
  index_.reset();

  const auto open = [&](int64_t memory_bytes_max) {
    return CollectionIndex::Open(folder_.path(), settings_, generations_, &oracle_, {memory_bytes_max});
  };
  auto little = open(1'000);
  ASSERT_EQ(little.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(little.status().message()),
              testing::AllOf(testing::HasSubstr("10500 rows"), testing::HasSubstr("allows 1000")));

  auto enough = open(1'000'000);  // for lists, not for a graph
  ASSERT_TRUE(enough.ok()) << enough.status();
  index_ = std::move(*enough);
  ASSERT_TRUE(oracle_.Replay(*index_).ok());
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(index_->Stats().segments.at(0).kind, "ivf");
  EXPECT_THAT(index_->Stats().choice, testing::HasSubstr("index.memory_bytes_max is 1000000"));
  ExpectEqual("as lists");
}

INSTANTIATE_TEST_SUITE_P(Auto, IndexMemory, testing::Values(Choice{SealedKind::kAuto, RowCodes::kAuto}),
                         [](const auto&) { return "auto"; });

INSTANTIATE_TEST_SUITE_P(
    All, IndexKinds,
    testing::Values(Choice{SealedKind::kFlat, RowCodes::kFloat32}, Choice{SealedKind::kHnsw, RowCodes::kInt8},
                    Choice{SealedKind::kHnsw, RowCodes::kHalf}, Choice{SealedKind::kIvf, RowCodes::kFloat32},
                    Choice{SealedKind::kIvf, RowCodes::kInt8}, Choice{SealedKind::kIvf, RowCodes::kHalf},
                    Choice{SealedKind::kIvf, RowCodes::kPq}),
    [](const auto& info) { return StrCat(SealedKindName(info.param.kind), "_", RowCodesName(info.param.codes)); });

}  // namespace
}  // namespace lightcone
