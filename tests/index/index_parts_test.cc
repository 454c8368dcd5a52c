// The parts that can be tried alone: build policy, file formats, candidate set, graph bytes, plans of filtered
// searches.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/build/build_plan.h"
#include "index/build/calibration.h"
#include "index/build/kind_choice.h"
#include "index/build/segment_writer.h"
#include "index/ivf/list_builder.h"
#include "index/ivf/lists.h"
#include "index/ivf/pq_builder.h"
#include "index/ivf/pq_codes.h"
#include "index/rows/growing_segment.h"
#include "index/rows/manifest.h"
#include "index/rows/segment_codes.h"
#include "index/search/candidates.h"
#include "index/search/plan_cost.h"
#include "index/search/post_filter.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BuildPlan, SealsTheOldestGrowingSegmentsTogetherAsFarAsTheyFit) {
  IndexSettings settings;
  settings.growing_rows_max = 100;
  settings.merge_rows_max = 250;
  const BuildInput growing{false, 100, 0}, half{false, 100, 50};
  EXPECT_EQ(PlanSeal({growing, growing, growing}, settings), 2u);
  EXPECT_EQ(PlanSeal({half, growing, growing}, settings), 3u) << "deleted rows are not written";
  EXPECT_EQ(PlanSeal({growing, growing}, settings, /*rows_max=*/150), 1u);
  EXPECT_EQ(PlanSeal({growing, growing}, settings, /*rows_max=*/50), 1u) << "at least one";
  EXPECT_EQ(PlanSeal({}, settings), 0u);
}

TEST(BuildPlan, CompactsAboveTheTombstoneShare) {
  IndexSettings settings;
  settings.growing_rows_max = 100;
  const BuildInput small{false, 100, 20}, dead{false, 100, 21}, remnant{false, 100, 79};
  EXPECT_THAT(PlanRewrite(RewriteKind::kCompact, {small, small, small, small}, settings), IsEmpty());
  EXPECT_THAT(PlanRewrite(RewriteKind::kCompact, {small, dead}, settings), ElementsAre(1u));
  EXPECT_THAT(PlanRewrite(RewriteKind::kCompact, {small, dead, dead}, settings), ElementsAre(1u))
      << "158 live rows are too many at once";
  EXPECT_THAT(PlanRewrite(RewriteKind::kCompact, {dead, remnant, small, remnant}, settings), ElementsAre(0u, 1u));
}

TEST(BuildPlan, MergesFourOfASize) {
  IndexSettings settings;
  settings.growing_rows_max = 100;
  const BuildInput small{false, 100, 20}, large{false, 400, 0};
  EXPECT_THAT(PlanRewrite(RewriteKind::kMerge, {small, small, small}, settings), IsEmpty());
  EXPECT_THAT(PlanRewrite(RewriteKind::kMerge, {small, large, small, small, small}, settings),
              ElementsAre(0u, 2u, 3u, 4u));
  EXPECT_THAT(PlanRewrite(RewriteKind::kMerge, {}, settings), IsEmpty());
  settings.merge_rows_max = 300;
  EXPECT_THAT(PlanRewrite(RewriteKind::kMerge, {small, small, small, small}, settings), IsEmpty())
      << "320 live rows do not fit";
}

TEST(BuildPlan, RebuildsStaleSegmentsTogether) {
  const BuildInput fresh{false, 10, 0}, stale{true, 10, 0}, provisional{false, 10, 0, true};
  EXPECT_THAT(PlanRewrite(RewriteKind::kRebuild, {fresh, stale, fresh, stale}, IndexSettings()), ElementsAre(1u, 3u));
  EXPECT_THAT(PlanRewrite(RewriteKind::kRebuild, {fresh, fresh}, IndexSettings()), IsEmpty());
  EXPECT_THAT(PlanRewrite(RewriteKind::kRebuild, {fresh, provisional}, IndexSettings()), IsEmpty());
  EXPECT_THAT(PlanRewrite(RewriteKind::kFinish, {fresh, provisional, stale, provisional}, IndexSettings()),
              ElementsAre(1u, 3u));
}

TEST(CandidateSet, KeepsEveryRowWhoseBoundReachesTheFloor) {
  CandidateSet set(2);
  set.Add(1.0f, 0.1, 0, 1);
  EXPECT_EQ(set.floor(), -std::numeric_limits<double>::infinity());
  set.Add(0.5f, 0.1, 0, 2);
  EXPECT_NEAR(set.floor(), 0.4, 1e-7);
  set.Add(0.4f, 0.1, 0, 3);
  set.Add(2.0f, 0.1, 0, 4);
  EXPECT_NEAR(set.floor(), 0.9, 1e-7);
  EXPECT_EQ(set.Take().size(), 2u);
}

SegmentManifest AManifest() {
  SegmentManifest manifest;
  manifest.id = 7;
  manifest.generation = 2;
  manifest.space = {Metric::kLorentz, 5, 0.3, 1.2};
  manifest.kind = "flat";
  manifest.rows = 3;
  manifest.stride = 5;
  manifest.first_sequence = 4;
  manifest.last_sequence = UINT64_MAX;
  manifest.files = {{"vectors.f32", 60, 1}, {"factors.f32", 24, 2}, {"ids.u64", 24, 3}, {"uncertainty.f32", 12, 4}};
  return manifest;
}

TEST(Manifest, ComesBackAsItWas) {
  const auto decoded = DecodeManifest(EncodeManifest(AManifest()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeManifest(*decoded), EncodeManifest(AManifest()));
  EXPECT_EQ(decoded->last_sequence, UINT64_MAX);
  EXPECT_EQ(decoded->space, AManifest().space);
}

TEST(Manifest, KeepsTheLargestBiasAndRefusesWhatIsNone) {
  SegmentManifest manifest = AManifest();
  EXPECT_FALSE(DecodeManifest(EncodeManifest(manifest))->bias_max.has_value()) << "a file of an earlier version";
  manifest.bias_max = 1.1f;
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest))->bias_max, 1.1f);
  manifest.rebuild = UINT32_MAX;
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest))->rebuild, UINT32_MAX);
  for (const float wrong : {-1.0f, INFINITY, std::nanf("")}) {
    manifest.bias_max = wrong;
    EXPECT_EQ(DecodeManifest(EncodeManifest(manifest)).status().code(), absl::StatusCode::kDataLoss) << wrong;
  }
}

TEST(Manifest, KeepsWhatWalksFindAndRefusesWhatCannotBe) {
  SegmentManifest manifest = AManifest();
  manifest.measured = {{16, 0.5}, {32, 0.75}};
  const auto decoded = DecodeManifest(EncodeManifest(manifest));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->measured.size(), 2u);
  EXPECT_EQ(decoded->measured[1].breadth, 32);
  EXPECT_EQ(decoded->measured[1].recall, 0.75);
  for (const std::vector<RecallAt>& wrong :
       {std::vector<RecallAt>{{0, 0.5}}, {{16, 1.5}}, {{16, -0.5}}, {{32, 0.5}, {16, 0.75}}, {{16, 0.5}, {16, 0.5}}}) {
    manifest.measured = wrong;
    EXPECT_EQ(DecodeManifest(EncodeManifest(manifest)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(Calibration, TheLeastBreadthThatReachesTheTargetIsTakenAndGrowsWithK) {
  const std::vector<RecallAt> walks = {{16, 0.8}, {32, 0.95}, {64, 0.99}};
  EXPECT_EQ(BreadthFor(walks, 0.5, 10), 16);
  EXPECT_EQ(BreadthFor(walks, 0.95, 10), 32);
  EXPECT_EQ(BreadthFor(walks, 0.951, 1), 64);
  EXPECT_EQ(BreadthFor(walks, 0.9, 25), 80);
  EXPECT_EQ(BreadthFor(walks, 0.999, 10), 0) << "none is known to reach it";
  EXPECT_EQ(BreadthFor({}, 0.5, 10), 0);
  EXPECT_EQ(BreadthFor(walks, 0.9, int64_t{1} << 60), 1'000'000'000);
  EXPECT_EQ(ProbesFor(walks, 0.9, 40), 64) << "lists hold many rows: twice as many for four times the rows";
  EXPECT_EQ(ProbesFor(walks, 0.999, 10), 0);
  EXPECT_EQ(ProvisionalProbes(walks, 10), 64);
  const std::vector<RecallAt> coarse = {{16, 0.5}, {32, 0.6}};
  EXPECT_EQ(ProvisionalProbes(coarse, 10), 32) << "what stands in for a graph is read as far as it was measured";
  EXPECT_EQ(ProvisionalProbes(coarse, 40), 64);
  EXPECT_EQ(ProvisionalProbes({}, 10), 0);
}

TEST(Calibration, ASearchThatNamesNoBreadthGetsWhatTheDefaultRecallNeeds) {
  const std::vector<RecallAt> easy = {{16, 0.98}, {32, 0.999}}, hard = {{128, 0.9}, {256, 0.98}}, none = {{768, 0.5}};
  EXPECT_EQ(DefaultBreadth(easy, 128, 10), 128) << "never less than the settings say";
  EXPECT_EQ(DefaultBreadth(easy, 16, 100), 106) << "what ten need, and one more for each row beyond";
  const std::vector<RecallAt> promised = {{128, 0.9}, {256, 0.96}};
  EXPECT_EQ(DefaultBreadth(promised, 128, 10), 256) << "at least the promise";
  EXPECT_EQ(DefaultBreadth(hard, 128, 10), 256);
  EXPECT_EQ(DefaultBreadth(none, 128, 10), 0) << "a scan";
  EXPECT_EQ(DefaultBreadth({}, 128, 10), 128) << "a file of an earlier version";
  EXPECT_EQ(RecallAtBreadth(hard, 200), 0.9);
  EXPECT_EQ(RecallAtBreadth(hard, 100), 0);
}

TEST(Manifest, IsRefusedWhenItIsDamagedOrContradictsItself) {
  EXPECT_EQ(DecodeManifest("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeManifest(std::string(100'000, '[')).status().code(), absl::StatusCode::kDataLoss);
  SegmentManifest wrong = AManifest();
  wrong.files[0].bytes = 61;
  EXPECT_EQ(DecodeManifest(EncodeManifest(wrong)).status().code(), absl::StatusCode::kDataLoss);
  wrong = AManifest();
  wrong.kind = "hnsw";  // lists no graph
  EXPECT_EQ(DecodeManifest(EncodeManifest(wrong)).status().code(), absl::StatusCode::kDataLoss);
  wrong = AManifest();
  wrong.space.curvature = -1;
  EXPECT_EQ(DecodeManifest(EncodeManifest(wrong)).status().code(), absl::StatusCode::kDataLoss);
  wrong = AManifest();
  wrong.stride = 4;
  EXPECT_EQ(DecodeManifest(EncodeManifest(wrong)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Manifest, CheckpointAndStatesComeBackAsTheyWere) {
  IndexCheckpoint checkpoint;
  checkpoint.next_segment_id = 9;
  checkpoint.newest_sequence = 12;
  checkpoint.generations.push_back({3, {Metric::kCosine, 4, 1, 1}, 11, false, {5, 6}});
  const auto decoded = DecodeIndexCheckpoint(EncodeIndexCheckpoint(checkpoint));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeIndexCheckpoint(*decoded), EncodeIndexCheckpoint(checkpoint));
  const SegmentStates states{uint64_t{1} << 40, {0, 2, UINT32_MAX}};
  const std::string bytes = EncodeStates(states);
  const auto read = DecodeStates(bytes, 3);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->of_rows, states.of_rows);
  EXPECT_EQ(read->sequence, states.sequence);
  EXPECT_FALSE(DecodeStates(bytes, 4).ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    EXPECT_FALSE(DecodeStates(damaged, 3).ok()) << i;
  }
}

TEST(SegmentCodes, AreRefusedWhenTheyDoNotFitOrTheirBoundsAreNoBounds) {
  constexpr int kDimension = 5;
  constexpr int64_t kRows = 3;
  CodeBlock bounds;
  bounds.error_max = 0.5f;
  bounds.norm_max = 2.0f;
  bounds.bias_max = 3.0f;
  const std::vector<float> centre = {1, 2, 3, 4, 5, 0, 0, 0};
  const auto bytes_of = [&](const CodesFooter& footer) {
    std::string bytes(kRows * CodeStride(CodeKind::kInt8, kDimension), '\x80');
    bytes.append(reinterpret_cast<const char*>(centre.data()), CentreBytes(kDimension));
    bytes.append(reinterpret_cast<const char*>(&footer), sizeof(footer));
    return bytes;
  };
  const CodesFooter good = CodesFooterOf(kDimension, kRows, bounds);
  const std::string bytes = bytes_of(good);
  const auto parsed = ParseCodes(bytes, CodeKind::kInt8, kDimension, kRows);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->stride, 32u);
  EXPECT_EQ(parsed->error_max, 0.5f);
  EXPECT_EQ(parsed->norm_max, 2.0f);
  EXPECT_EQ(parsed->bias_max, 3.0f);
  EXPECT_EQ(parsed->centre[4], 5.0f);
  EXPECT_FALSE(ParseCodes(bytes, CodeKind::kInt8, kDimension, kRows + 1).ok());
  EXPECT_FALSE(ParseCodes(bytes.substr(1), CodeKind::kInt8, kDimension, kRows).ok());
  for (const auto& damage : std::vector<std::function<void(CodesFooter&)>>{
           [](CodesFooter& f) { f.magic ^= 1; }, [](CodesFooter& f) { f.version = 3; },
           [](CodesFooter& f) { ++f.rows; }, [](CodesFooter& f) { f.dimension = 6; },
           [](CodesFooter& f) { f.kind = 1; }, [](CodesFooter& f) { f.stride = 48; },
           [](CodesFooter& f) { f.error_max = -1; }, [](CodesFooter& f) { f.norm_max = std::nanf(""); },
           [](CodesFooter& f) { f.bias_max = -INFINITY; }}) {
    CodesFooter damaged = good;
    damage(damaged);
    EXPECT_EQ(ParseCodes(bytes_of(damaged), CodeKind::kInt8, kDimension, kRows).status().code(),
              absl::StatusCode::kDataLoss);
  }
  std::string centreless = bytes;
  const float nan = std::nanf("");
  std::memcpy(&centreless[kRows * CodeStride(CodeKind::kInt8, kDimension) + 4], &nan, sizeof(nan));
  EXPECT_EQ(ParseCodes(centreless, CodeKind::kInt8, kDimension, kRows).status().code(), absl::StatusCode::kDataLoss);
}

// Rows in two numbers around 40 places.
class ListBytes : public testing::TestWithParam<Metric> {
 protected:
  static constexpr int64_t kRows = 2'000;
  static constexpr int kDimension = 5;
  ListBytes() : space_{GetParam(), kDimension, 1.0, 1.2} {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> places(40 * kDimension);
    for (float& x : places) x = normal(random);
    for (int64_t i = 0; i < kRows; ++i) {
      const size_t place = random() % 40 * kDimension;
      for (size_t j = 0; j < kDimension; ++j) rows_.push_back(places[place + j] + 0.05f * normal(random));
      factors_.push_back(FactorsOf(space_, Row(i)));
    }
  }

  std::span<const float> Row(int64_t i) const { return {&rows_[static_cast<size_t>(i) * kDimension], kDimension}; }

  absl::StatusOr<Partition> Build(
      int threads, const std::function<bool()>& stop = [] { return false; }) const {
    return PartitionRows(
        space_, kRows,
        [this](int64_t i) {
          return RowValues{Row(i), factors_[static_cast<size_t>(i)]};
        },
        {40, threads}, stop);
  }

  Space space_;
  std::vector<float> rows_;
  std::vector<RowFactors> factors_;
};

TEST_P(ListBytes, HoldEveryRowOnceInTheListOfItsNearestCentre) {
  const auto partition = Build(1);
  ASSERT_TRUE(partition.ok()) << partition.status();
  const auto by_many = Build(3);
  ASSERT_TRUE(by_many.ok()) << by_many.status();
  EXPECT_EQ(by_many->list_of, partition->list_of);
  std::vector<uint32_t> place;
  const std::string bytes = EncodeLists(*partition, kDimension, &place);
  const auto lists = Lists::Parse(bytes, kDimension, kRows);
  ASSERT_TRUE(lists.ok()) << lists.status();
  ASSERT_EQ(lists->count(), 40u);
  std::set<uint32_t> seen;
  int own = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    const uint32_t row = lists->by_id()[static_cast<size_t>(i)];
    EXPECT_TRUE(seen.insert(row).second);
    const uint32_t list = partition->list_of[static_cast<size_t>(i)];
    EXPECT_TRUE(lists->begin(list) <= row && row < lists->end(list));
    std::vector<float> scores(lists->count());
    lists->Score(*BoundQuery::Make(space_, space_, Row(i)), scores.data());
    own += std::max_element(scores.begin(), scores.end()) - scores.begin() == static_cast<std::ptrdiff_t>(list);
  }
  // As a query, a row finds its own list first; the largest inner products may well lie elsewhere.
  EXPECT_GE(own, GetParam() == Metric::kInnerProduct ? kRows / 4 : kRows - 20);
}

TEST_P(ListBytes, AreNotBuiltWhenTheBuilderIsToStop) {
  EXPECT_EQ(Build(2, [] { return true; }).status().code(), absl::StatusCode::kCancelled);
}

TEST_P(ListBytes, ThatWereChangedAreRefusedOrStayInBounds) {
  const auto partition = Build(1);
  ASSERT_TRUE(partition.ok());
  std::vector<uint32_t> place;
  const std::string good = EncodeLists(*partition, kDimension, &place);
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    const size_t at = (i % 2 == 0 ? random() % 64 : random() % bytes.size()) / 4 * 4;
    const uint32_t value = random() % 3 == 0 ? static_cast<uint32_t>(random()) : random() % 3000;
    std::memcpy(bytes.data() + at, &value, 4);
    const auto lists = Lists::Parse(bytes, kDimension, kRows);
    if (!lists.ok()) continue;
    std::vector<float> scores(lists->count());
    lists->Score(*BoundQuery::Make(space_, space_, Row(0)), scores.data());
    int64_t rows = 0;
    for (uint32_t list = 0; list < lists->count(); ++list) {
      EXPECT_FALSE(std::isnan(scores[list]));
      rows += lists->end(list) - lists->begin(list);
    }
    EXPECT_EQ(rows, kRows);
    for (const uint32_t row : lists->by_id()) EXPECT_LT(row, kRows);
  }
  EXPECT_FALSE(Lists::Parse(good.substr(0, good.size() - 4), kDimension, kRows).ok());
  EXPECT_FALSE(Lists::Parse(good.substr(0, 10), kDimension, kRows).ok());
  EXPECT_FALSE(Lists::Parse(good, kDimension, kRows + 1).ok());
  EXPECT_FALSE(Lists::Parse(good, kDimension + 1, kRows).ok());
}

TEST_P(ListBytes, TheirRowsAreScoredByProductQuantisedCodes) {
  const auto partition = Build(1);
  ASSERT_TRUE(partition.ok());
  std::vector<uint32_t> place;
  const std::string bytes = EncodeLists(*partition, kDimension, &place);
  const auto lists = Lists::Parse(bytes, kDimension, kRows);
  ASSERT_TRUE(lists.ok());
  std::vector<int64_t> given(place.size());
  for (size_t i = 0; i < place.size(); ++i) given[place[i]] = static_cast<int64_t>(i);
  const auto row = [&](int64_t i) {
    const int64_t from = given[static_cast<size_t>(i)];
    return RowValues{Row(from), factors_[static_cast<size_t>(from)]};
  };
  const auto encoded = EncodePq(space_, *lists, row, {kDimension, 1}, [] { return false; });
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const auto codes = PqCodes::Parse(*encoded, kDimension, kRows);
  ASSERT_TRUE(codes.ok()) << codes.status();
  const BoundQuery query = *BoundQuery::Make(space_, space_, Row(0));
  std::vector<float> centre_scores(lists->count());
  lists->Score(query, centre_scores.data());
  const PqQuery pq(*codes, query);
  double worst = 0, spread = 0;
  for (uint32_t list = 0; list < lists->count(); ++list) {
    std::vector<float> scores(static_cast<size_t>(lists->end(list) - lists->begin(list)));
    pq.Score(lists->begin(list), scores.size(), centre_scores[list], lists->bias(list), scores.data());
    for (size_t i = 0; i < scores.size(); ++i) {
      const double truth = query.ScoreOfDistance(query.Distance(row(lists->begin(list) + static_cast<int64_t>(i)).z));
      worst = std::max(worst, std::abs(scores[i] - truth));
      spread = std::max(spread, std::abs(truth - centre_scores[list]));
    }
  }
  EXPECT_LT(worst, 0.1 * spread) << "a byte a number, of rows that lie around their centres";

  EXPECT_EQ(EncodePq(space_, *lists, row, {1, 1}, [] { return true; }).status().code(), absl::StatusCode::kCancelled);
  int asked = 0;
  const auto after_some_parts = [&asked] { return ++asked == kDimension; };
  EXPECT_EQ(EncodePq(space_, *lists, row, {kDimension, 1}, after_some_parts).status().code(),
            absl::StatusCode::kCancelled)
      << "asked between the parts that are trained, not only while rows are coded";
  EXPECT_EQ(asked, kDimension);
  EXPECT_FALSE(PqCodes::Parse(encoded->substr(1), kDimension, kRows).ok());
  EXPECT_FALSE(PqCodes::Parse(encoded->substr(0, 10), kDimension, kRows).ok());
  EXPECT_FALSE(PqCodes::Parse(*encoded, kDimension + 1, kRows).ok());
  EXPECT_FALSE(PqCodes::Parse(*encoded, kDimension, kRows + 1).ok());
  for (size_t at = 0; at < 24; at += 4) {
    std::string damaged = *encoded;
    damaged[at] ^= 1;
    EXPECT_EQ(PqCodes::Parse(damaged, kDimension, kRows).status().code(), absl::StatusCode::kDataLoss) << at;
  }
}

TEST(SegmentWriter, LeavesNothingBehindWhenWhatItWroteCannotBeOpened) {
  auto growing = GrowingSegment::Make(1, 1, {Metric::kEuclidean, 8}, 200);
  ASSERT_TRUE(growing.ok()) << growing.status();
  std::mt19937 random(3);
  for (uint64_t id = 1; id <= 200; ++id) {
    std::vector<float> z(8);
    for (float& x : z) x = static_cast<float>(random() % 1000);
    (*growing)->Append(id, z, 0.5f, kLive, id);
  }
  SegmentPlan plan;
  plan.id = 2;
  plan.settings.kind = SealedKind::kHnsw;
  TemporaryFolder folder;
  const std::string path = folder / "2";
  bool lost = false;
  const auto lose_a_column = [&] {  // once it is measured, after it was opened for that
    std::error_code error;
    if (std::filesystem::exists(path + ".tmp/manifest.json")) {
      lost = std::filesystem::remove(path + ".tmp/uncertainty.f32", error) || lost;
    }
    return false;
  };
  std::vector<RowReference> rows = GatherRows({*growing}, {200});
  EXPECT_FALSE(WriteSegment(path, plan, {*growing}, rows, BuildControl{lose_a_column}).ok());
  EXPECT_TRUE(lost);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PqParts, DivideTheDimension) {
  EXPECT_EQ(PqParts(0, 128), 32);
  EXPECT_EQ(PqParts(0, 100), 25);
  EXPECT_EQ(PqParts(0, 6), 1);
  EXPECT_EQ(PqParts(0, 127), 0) << "a prime";
  EXPECT_EQ(PqParts(16, 128), 16);
  EXPECT_EQ(PqParts(3, 128), 0);
  IndexSettings settings;
  settings.codes = RowCodes::kPq;
  EXPECT_THAT(std::string(settings.Validate().message()), testing::HasSubstr("'codes'")) << "with a graph";
  settings.kind = SealedKind::kIvf;
  EXPECT_TRUE(settings.Validate().ok());
  EXPECT_TRUE(settings.ValidateFor(128).ok());
  EXPECT_THAT(std::string(settings.ValidateFor(127).message()), testing::HasSubstr("'codes' is pq"));
  settings.pq_m = 3;
  EXPECT_THAT(std::string(settings.ValidateFor(128).message()),
              testing::AllOf(testing::HasSubstr("'pq_m' is 3"), testing::HasSubstr("8, 16, 32, 64, 128")));
}

TEST(KindChoice, GoesBySizeAndMemoryAndSaysWhy) {
  IndexSettings settings;
  settings.kind = SealedKind::kAuto;
  settings.codes = RowCodes::kAuto;
  ChoiceInput input{.dimension = 128, .rows = 5'000, .collection_rows = 5'000};
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kFlat);
  EXPECT_EQ(Choose(settings, input).codes, RowCodes::kInt8);
  input.rows = input.collection_rows = 1'000'000;
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kHnsw);
  const int64_t of_graphs = HotBytes(settings, SealedKind::kHnsw, RowCodes::kInt8, 128, input.rows);
  EXPECT_EQ(of_graphs, 1'000'000 * (144 + 20 + 4 * 34));
  input.memory_bytes_max = of_graphs;
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kHnsw);
  input.memory_bytes_max = of_graphs - 1;
  const KindChoice lists = Choose(settings, input);
  EXPECT_EQ(lists.kind, SealedKind::kIvf);
  EXPECT_EQ(lists.codes, RowCodes::kInt8);
  EXPECT_THAT(lists.reason,
              testing::AllOf(testing::HasSubstr("ivf with codes int8"), testing::HasSubstr("1000000 rows"),
                             testing::HasSubstr(StrCat(of_graphs)), testing::HasSubstr(StrCat(of_graphs - 1))));
  // Once it is that, it takes a fifth of the limit to be free to go back.
  input.is_ivf = true;
  input.memory_bytes_max = of_graphs + of_graphs / 10;
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kIvf);
  input.memory_bytes_max = of_graphs + of_graphs / 2;
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kHnsw);
  input.memory_bytes_max = 100'000'000;  // less than the codes alone
  EXPECT_EQ(Choose(settings, input).codes, RowCodes::kPq);
  input.dimension = 127;  // which no parts divide
  EXPECT_EQ(Choose(settings, input).codes, RowCodes::kInt8);
  input.dimension = 3;
  EXPECT_EQ(Choose(settings, input).codes, RowCodes::kFloat32);
  settings.kind = SealedKind::kFlat;
  settings.codes = RowCodes::kHalf;
  EXPECT_EQ(Choose(settings, input).kind, SealedKind::kFlat);
  EXPECT_EQ(Choose(settings, input).reason, "");
}

INSTANTIATE_TEST_SUITE_P(Metrics, ListBytes,
                         testing::Values(Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean),
                         [](const auto& info) { return std::string(MetricName(info.param)); });

TEST(FilterPlan, FollowsTheShareOfRowsThatPass) {
  FilterFacts facts;
  facts.rows = 200'000;
  facts.by_ids = facts.listed = true;
  facts.breadth = 128;
  facts.k = 10;
  const auto plan = [&](double share) {
    facts.cheap_share = facts.share = share;
    return ChoosePlan(facts).plan;
  };
  EXPECT_EQ(plan(1.0), SearchPlan::kWalk);
  EXPECT_EQ(plan(0.5), SearchPlan::kPostFilter);
  EXPECT_EQ(plan(0.05), SearchPlan::kPassingScan);
  EXPECT_EQ(plan(0.001), SearchPlan::kPassingScan);
  EXPECT_EQ(plan(0.0), SearchPlan::kPassingScan);
  facts.k = 128;  // a walk by which three times as many are found is dearer than one by passing rows
  EXPECT_EQ(plan(0.5), SearchPlan::kPassingWalk);
  facts.k = 10;
  facts.for_recall = true;  // so is one that finds the nearest 10 of a tenth as surely as the breadth finds 10
  EXPECT_EQ(plan(0.1), SearchPlan::kPassingWalk);
  facts.for_recall = false;
  facts.fell_short = true;
  EXPECT_EQ(plan(0.5), SearchPlan::kWalk);
  facts.fell_short = false;
  facts.breadth = 0;  // exact, or no graph
  EXPECT_EQ(plan(1.0), SearchPlan::kScan);
  EXPECT_EQ(plan(0.1), SearchPlan::kPassingScan);
}

TEST(LateFilters, LeaveWhatIsAcceptedAndAskAboutNoRowThatIsSurelyNoHit) {
  std::vector<WalkedRow> met;
  for (uint32_t row = 0; row < 40; ++row) met.push_back({1.0f - 0.01f * static_cast<float>(row), 0.001, row % 3, row});
  std::vector<uint32_t> asked;
  const auto accepts = [&](const WalkedRow& row) {
    asked.push_back(row.row);
    EXPECT_EQ(row.walk, row.row % 3);
    return row.row % 2 == 0;
  };
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  LowerEnds ends(4, kNone);
  std::shuffle(met.begin(), met.end(), std::mt19937(3));
  auto accepted = NearestAccepted(met, 4, ends, accepts);
  ASSERT_TRUE(accepted.has_value());
  std::vector<uint32_t> rows;
  for (const WalkedRow& row : *accepted) rows.push_back(row.row);
  EXPECT_EQ(rows, (std::vector<uint32_t>{0, 2, 4, 6, 8, 10})) << "half as many again as are wanted";
  EXPECT_EQ(asked.size(), 11u);
  EXPECT_NEAR(ends.floor(), 1 - 0.06 - 0.001, 1e-6);

  // Rows whose scores say little are asked about as long as they may be hits.
  for (WalkedRow& row : met) row.error = row.row == 6 ? 0.5 : row.row < 12 ? 0.001 : 0.0;
  ends = LowerEnds(4, kNone);
  accepted = NearestAccepted(met, 4, ends, accepts);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_NEAR(ends.floor(), 1 - 0.08 - 0.001, 1e-6) << "the fourth largest of what they are at least";

  // Too few are accepted, unless what is farther than all that was met is no hit anyway.
  const auto few = [&](const WalkedRow& row) { return row.row < 5; };
  ends = LowerEnds(4, 0.5);
  EXPECT_FALSE(NearestAccepted(met, 4, ends, few).has_value());
  EXPECT_EQ(ends.floor(), 0.5);
  for (WalkedRow& row : met) row.error = 0.001;
  ends = LowerEnds(4, 0.99);
  accepted = NearestAccepted(met, 4, ends, few);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->size(), 2u) << "those that are not surely below it";
}

}  // namespace
}  // namespace lightcone
