// What searches by two vectors and their validation are made of: fusions of distances, features of rows, shares,
// records.
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "engine_testing.h"
#include "server/engine/search/fused_leg.h"
#include "server/engine/validation/both_queries.h"
#include "server/engine/validation/validation.h"
#include "stats/distance_fusion.h"

namespace lightcone::server {
namespace {

TEST(DistanceFusion, HasTheMeanAndTheDeviationOfTheNewerDistances) {
  std::mt19937 random(3);
  std::vector<double> older, newer, fused;
  for (const float x : RandomVector(&random, 400)) older.push_back(5 + 2 * static_cast<double>(x));
  for (const float x : RandomVector(&random, 400)) newer.push_back(1 + 0.1 * static_cast<double>(x));
  for (const double weight : {0.0, 0.25, 0.9, 1.0}) {
    const DistanceFusion fusion = DistanceFusion::Make(older, newer, weight);
    fused.clear();
    for (size_t i = 0; i < older.size(); ++i) fused.push_back(fusion.Of(older[i], newer[i]));
    const DistanceScale is = DistanceScale::Of(fused), wanted = DistanceScale::Of(newer);
    EXPECT_NEAR(is.mean, wanted.mean, 1e-9) << weight;
    EXPECT_NEAR(is.deviation, wanted.deviation, 1e-9) << weight;
    EXPECT_GE(fusion.older_slope, 0);
    EXPECT_GE(fusion.newer_slope, 0);
  }
  const DistanceFusion alone = DistanceFusion::Make(older, newer, 0);
  EXPECT_NEAR(alone.Of(99, 0.7), 0.7, 1e-9) << "without weight the older distance says nothing";
}

TEST(DistanceFusion, IsFiniteWhereThereIsNothingToLearnFrom) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> none, same = {2, 2, 2}, lost = {infinite, infinite, infinite};
  for (const auto& [older, newer] : {std::pair(none, none), std::pair(same, same), std::pair(same, lost)}) {
    const DistanceFusion fusion = DistanceFusion::Make(older, newer, 0.25);
    EXPECT_TRUE(std::isfinite(fusion.Of(1, 2)));
    EXPECT_LT(fusion.Of(1, 2), fusion.Of(1, 3));
    EXPECT_LT(fusion.Of(1, 2), fusion.Of(2, 2));
  }
}

TEST(RowFeatures, AreTheSameWhetherMemoryKeepsThemOrNot) {
  std::mt19937 random(9);
  const auto sample_of = [&] {
    auto sample = std::make_shared<RowSample>();
    for (int i = 0; i < 40; ++i) sample->rows.push_back(RandomVector(&random, 8));
    return sample;
  };
  const auto first = sample_of(), second = sample_of();
  RowFeatures kept, forgotten(/*bytes_max=*/100);
  kept.Use(first);
  forgotten.Use(first);
  const auto copy = [](std::span<const float> features) {
    return std::vector<float>(features.begin(), features.end());
  };
  for (uint64_t id = 0; id < 20; ++id) {
    const std::vector<float> row = RandomVector(&random, 8);
    const std::vector<float> features = copy(kept.Take(id, row));
    EXPECT_EQ(copy(forgotten.Take(id, row)), features);
    EXPECT_EQ(copy(kept.Of(id)), features);
    EXPECT_TRUE(forgotten.Of(id).empty());
    EXPECT_EQ(copy(kept.Take(id, RandomVector(&random, 8))), features) << "a row that is known is not looked at";
  }
  kept.Use(second);
  EXPECT_TRUE(kept.Of(3).empty()) << "features of another sample";
}

TEST(BothQueriesWeights, AreChosenByTheOtherHalfAndNotByFewProbes) {
  const size_t probes = 400;
  ProbeMeasures old_self;
  std::vector<ProbeMeasures> by_share(kPlainShares);
  const auto fill = [](size_t n, double cmc1, double ap) {
    ProbeMeasures m;
    m.cmc1.assign(n, cmc1);
    m.cmc5.assign(n, 1.0);
    m.ap.assign(n, ap);
    return m;
  };
  const auto choose = [&](size_t n) {
    old_self = fill(n, 0.5, 0.2);
    const double cmc1[] = {0.4, 0.5, 0.6, 0.6, 0.5}, ap[] = {0.9, 0.3, 0.4, 0.35, 0.2};
    for (size_t w = 0; w < by_share.size(); ++w) by_share[w] = fill(n, cmc1[w], ap[w]);
    return ChooseShares(by_share, old_self);
  };
  const ChosenShares chosen = choose(probes);
  EXPECT_EQ(chosen.all, 2u) << "the greatest sum of those that do not lose in CMC@1";
  EXPECT_EQ(chosen.by_probe, std::vector<size_t>(probes, 2));
  const ChosenShares few = choose(60);
  EXPECT_EQ(kOlderShares[few.all], OlderShare());
  EXPECT_EQ(few.by_probe, std::vector<size_t>(60, few.all));
}

TEST(BothQueriesWeights, AreChosenByTheFirstHitOfTheGalleryAsItStands) {
  const double far = std::numeric_limits<double>::infinity();
  ProbeMeasures measures;
  measures.cmc1 = {1, 1, 0, 0, 1, 1, std::nullopt};
  measures.cmc5 = measures.ap = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, std::nullopt};
  const std::vector<NearestRow> older = {{0.3, true}, {0.3, true},  {0.3, false}, {0.3, false},
                                         {0.3, true}, {far, false}, {0.3, true}};
  const std::vector<NearestRow> newer = {{0.4, false}, {0.2, false}, {0.2, true}, {far, false},
                                         {0.3, false}, {far, false}, {0.2, true}};
  const ProbeMeasures standing = AsItStands(measures, older, newer);
  const std::vector<std::optional<double>> expected = {1, 0, 1, 0, 0, 1, std::nullopt};
  EXPECT_EQ(standing.cmc1, expected) << "of equally near ones, one that is not relevant; none at all: as it was";
  EXPECT_EQ(standing.ap, measures.ap);
}

TEST(BothQueriesRecord, IsReadBackAndOlderRecordsAreReadWithoutIt) {
  ValidationReport report;
  PairReport& pair = report.pairs.emplace_back();
  pair.item_generation = 1;
  const std::string before = Encode(report);
  EXPECT_EQ(before.find("both"), std::string::npos);
  ASSERT_TRUE(DecodeValidation(before).ok());
  EXPECT_FALSE(DecodeValidation(before)->pairs[0].both_beside.has_value());
  WayReport& way = pair.both.emplace_back();
  way.way = AdapterMode::kQuery;
  way.older = OlderShare{0.5, true};
  pair.both_beside = AdapterMode::kQuery;
  pair.both_pass = true;
  const auto read = DecodeValidation(Encode(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Encode(*read), Encode(report));
  EXPECT_EQ(read->pairs[0].both[0].older, way.older);
  way.older->weight = 1;
  EXPECT_TRUE(Fails(DecodeValidation(Encode(report)), absl::StatusCode::kDataLoss, {"pairs"}));
}

}  // namespace
}  // namespace lightcone::server
