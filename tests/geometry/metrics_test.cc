#include "stats/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/rank_distances.h"

namespace lightcone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Labels = std::vector<std::int64_t>;

TEST(SummariseRanks, HasGainAndRecallOfTheFirstTen) {
  const std::size_t ranks[] = {2, 3, 11};
  const QueryRanking some = SummariseRanks(ranks);
  const double possible = 1 + 1 / std::log2(3.0) + 1 / std::log2(4.0);
  EXPECT_NEAR(some.ndcg10, (1 / std::log2(3.0) + 1 / std::log2(4.0)) / possible, 1e-12);
  EXPECT_NEAR(some.recall10, 2.0 / 3, 1e-12);
  std::vector<std::size_t> many(20);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i + 1;
  EXPECT_NEAR(SummariseRanks(many).ndcg10, 1, 1e-12) << "ten of twenty are as many as ten places hold";
  EXPECT_NEAR(SummariseRanks(many).recall10, 1, 1e-12);
  EXPECT_EQ(SummariseRanks({}).ndcg10, 0);
}

TEST(RankingMetrics, CountsHitsAndPrecisionOfAHandMadeRanking) {
  RankingAccumulator accumulator({1, 2, 10});
  accumulator.AddRanked(7, Labels{7, 1, 7, 2});  // AP = (1 + 2/3)/2
  accumulator.AddRanked(7, Labels{1, 7});        // AP = 1/2
  accumulator.AddRanked(9, Labels{1, 7});        // nothing relevant
  const RankingMetrics metrics = accumulator.Finish();
  EXPECT_THAT(metrics.cmc, ElementsAre(0.5, 1.0, 1.0));
  EXPECT_NEAR(metrics.map, (5.0 / 6 + 0.5) / 2, 1e-15);
  EXPECT_EQ(metrics.valid_queries, 2);
  EXPECT_FALSE(metrics.ap[2].has_value());
}

TEST(RankingMetrics, DistancesAndRankedListsAgree) {
  std::mt19937_64 random(31);
  constexpr std::size_t kItems = 60;
  Labels labels(kItems);
  for (auto& label : labels) label = random() % 7;
  std::vector<double> distances(kItems * kItems);
  for (double& d : distances) d = static_cast<double>(random() % 20);  // many ties
  RankingAccumulator ranked({1, 5});
  for (std::size_t q = 0; q < kItems; ++q) {
    std::vector<std::size_t> order(kItems);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](auto x, auto y) { return distances[q * kItems + x] < distances[q * kItems + y]; });
    Labels list;
    for (std::size_t i : order) {
      if (i != q) list.push_back(labels[i]);
    }
    ranked.AddRanked(labels[q], list);
  }
  const auto from_matrix = RankDistances(distances, labels, labels, true, {1, 5});
  EXPECT_EQ(from_matrix->cmc, ranked.Finish().cmc);
  EXPECT_EQ(from_matrix->ap, ranked.Finish().ap);
}

TEST(RankingMetrics, LeavesOutTheOwnItemOnlyWhenAsked) {
  const std::vector<double> distances = {0, 1, 2, 1, 0, 2, 2, 1, 0};
  const Labels labels = {1, 2, 1};
  EXPECT_EQ(RankDistances(distances, labels, labels, false, {1})->cmc[0], 1.0);
  const auto excluded = RankDistances(distances, labels, labels, true, {1});
  EXPECT_EQ(excluded->cmc[0], 0.0);
  EXPECT_EQ(excluded->valid_queries, 2);
}

TEST(RankingMetrics, RefusesWhatCannotBeRanked) {
  const Labels one = {1}, two = {1, 2};
  EXPECT_THAT(MessageOf(RankDistances(std::vector<double>{1}, one, two, false, {1}).status()),
              HasSubstr("field 'distances'"));
  EXPECT_THAT(MessageOf(RankDistances(std::vector<double>{1, 2}, one, two, true, {1}).status()),
              HasSubstr("field 'gallery_labels'"));
  EXPECT_THAT(MessageOf(RankDistances(std::vector<double>{1, 2}, one, two, false, {0}).status()),
              HasSubstr("field 'k' is 0"));
  EXPECT_THAT(MessageOf(RankDistances(std::vector<double>{1, std::nan("")}, one, two, false, {1}).status()),
              HasSubstr("distances[0][1]"));
  EXPECT_EQ(RankDistances({}, {}, {}, true, {1})->valid_queries, 0);
}

TEST(Compatibility, FollowsTheDefinitionsAndIsUndefinedWithoutAGap) {
  EXPECT_NEAR(*PCom(0.716, 0.576, 0.722), 0.958904109589041, 1e-12);
  EXPECT_NEAR(*PUp(0.721, 0.722), -0.0013850415512465387, 1e-12);
  EXPECT_FALSE(PCom(0.5, 0.7, 0.7).has_value());
  EXPECT_FALSE(PUp(0.5, 0.0).has_value());
}

TEST(Auroc, IsTheChanceThatAPositiveScoresHigher) {
  const std::vector<double> scores = {0.1, 0.4, 0.35, 0.8};
  EXPECT_NEAR(*Auroc(scores, std::vector<std::uint8_t>{0, 0, 1, 1}), 0.75, 1e-15);
  EXPECT_NEAR(*Auroc(std::vector<double>{1, 1, 1}, std::vector<std::uint8_t>{0, 1, 1}), 0.5, 1e-15);
  EXPECT_NEAR(*Auroc(std::vector<double>{1, 2, 2}, std::vector<std::uint8_t>{0, 0, 1}), 0.75, 1e-15);
  EXPECT_FALSE(Auroc(scores, std::vector<std::uint8_t>{1, 1, 1, 1}).has_value());
  EXPECT_FALSE(Auroc({}, {}).has_value());
}

TEST(RelevantRanks, BreaksTiesByIndexOnBothSidesOfARelevantItem) {
  const std::vector<std::int64_t> labels = {1, 7, 1, 7, 1, 7};
  // Distance 2 three times: index 0 goes before the relevant 1, and 2 between 1 and 3.
  const std::vector<double> distances = {2, 2, 2, 2, 1, 5};
  EXPECT_EQ(RelevantRanks(7, distances, labels, std::nullopt), (std::vector<std::size_t>{3, 5, 6}));
  EXPECT_EQ(RelevantRanks(7, distances, labels, 1), (std::vector<std::size_t>{4, 5}));
  EXPECT_TRUE(RelevantRanks(9, distances, labels, std::nullopt).empty());
}

}  // namespace
}  // namespace lightcone
