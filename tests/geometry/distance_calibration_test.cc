#include "stats/distance_calibration.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;

double LogOdds(const RelevanceFit& fit, double distance) { return fit.intercept - fit.steepness * distance; }

// Items at distances around 4, relevant with log odds `intercept` - `steepness` d; kept as `seen`(d).
DistanceCounts Drawn(uint32_t seed, double intercept, double steepness, int items,
                     const std::function<double(double)>& seen) {
  std::mt19937 random(seed);
  std::normal_distribution<double> near(4, 1.5);
  std::uniform_real_distribution<double> chance(0, 1);
  DistanceCounts counts;
  for (int i = 0; i < items; ++i) {
    const double d = std::abs(near(random));
    counts.Add(seen(d), chance(random) < 1 / (1 + std::exp(-(intercept - steepness * d))));
  }
  return counts;
}

void AddMany(DistanceCounts* counts, double distance, int relevant, int others) {
  for (int i = 0; i < relevant; ++i) counts->Add(distance, true);
  for (int i = 0; i < others; ++i) counts->Add(distance, false);
}

TEST(FitRelevance, OfTwoDistancesItsLogOddsAreThoseThatWereCounted) {
  DistanceCounts counts;
  AddMany(&counts, 1, 30, 10);
  AddMany(&counts, 3, 5, 100);
  const auto fit = FitRelevance(counts);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(LogOdds(*fit, 1), std::log(30.0 / 10), 1e-6);
  EXPECT_NEAR(LogOdds(*fit, 3), std::log(5.0 / 100), 1e-6);
}

TEST(FitRelevance, FindsTheOddsThatDistancesWereDrawnBy) {
  for (const double steepness : {0.5, 2.0, 6.0}) {
    const auto fit = FitRelevance(Drawn(7, 3 * steepness, steepness, 200'000, [](double d) { return d; }));
    ASSERT_TRUE(fit.ok()) << fit.status();
    EXPECT_NEAR(fit->steepness, steepness, 0.05 * steepness);
    EXPECT_NEAR(fit->intercept, 3 * steepness, 0.15 * steepness);
  }
}

TEST(FitRelevance, ConvergesThoughTheLastStepsGainLessThanRounding) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const auto fit = FitRelevance(Drawn(seed, 4, 2, 100'000, [](double d) { return d; }));
    EXPECT_TRUE(fit.ok()) << seed << ": " << fit.status();
  }
}

TEST(FitRelevance, IsWhereTheLikelihoodIsFlat) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> distance(0.5, 5);
  std::vector<std::pair<double, bool>> items;
  DistanceCounts counts;
  for (int i = 0; i < 500; ++i) {
    items.emplace_back(distance(random), random() % 3 == 0);
    items.back().first += items.back().second ? 0 : 1;
    counts.Add(items.back().first, items.back().second);
  }
  const auto fit = FitRelevance(counts);
  ASSERT_TRUE(fit.ok()) << fit.status();
  double by_intercept = 0, by_steepness = 0;
  for (const auto& [d, relevant] : items) {
    const double off = 1 / (1 + std::exp(-LogOdds(*fit, d))) - (relevant ? 1 : 0);
    by_intercept += off;
    by_steepness += off * d;
  }
  EXPECT_NEAR(by_intercept, 0, 0.01);  // of 500; the points are rounded to 1/16384
  EXPECT_NEAR(by_steepness, 0, 0.03);
}

TEST(FitRelevance, RareRelevantItemsDoNotBreakIt) {
  DistanceCounts counts;
  AddMany(&counts, 1, 5, 100);
  AddMany(&counts, 2, 4, 1'000'000);
  const auto fit = FitRelevance(counts);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(LogOdds(*fit, 1), std::log(5.0 / 100), 0.01);
  EXPECT_NEAR(LogOdds(*fit, 2), std::log(4.0 / 1e6), 0.01);
}

TEST(FitRelevance, SaysWhatDistancesAreNotGoodFor) {
  const auto why = [](const std::vector<std::pair<double, bool>>& items) {
    DistanceCounts counts;
    for (const auto& [distance, relevant] : items) counts.Add(distance, relevant);
    const auto fit = FitRelevance(counts);
    EXPECT_FALSE(fit.ok()) << fit->intercept << " " << fit->steepness;
    EXPECT_EQ(fit.status().code(), absl::StatusCode::kFailedPrecondition);
    return MessageOf(fit.status());
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(why({}), HasSubstr("nothing is relevant"));
  EXPECT_THAT(why({{1, false}, {2, false}}), HasSubstr("nothing is relevant"));
  EXPECT_THAT(why({{1, true}, {2, true}}), HasSubstr("everything is relevant"));
  EXPECT_THAT(why({{1.5, true}, {1.5, false}}), HasSubstr("all distances are the same"));
  EXPECT_THAT(why({{0, true}, {0, false}}), HasSubstr("all distances are the same"));
  EXPECT_THAT(why({{1, true}, {2, true}, {3, false}}), HasSubstr("separates"));
  EXPECT_THAT(why({{1, true}, {2, true}, {2, false}, {3, false}}), HasSubstr("separates")) << "they touch";
  EXPECT_THAT(why({{1, false}, {2, true}}), HasSubstr("separates")) << "the wrong way round";
  EXPECT_THAT(why({{1, false}, {3, true}, {2, true}, {2.5, false}, {2.6, true}}), HasSubstr("not more often relevant"));
  EXPECT_THAT(why({{1, true}, {2, false}, {0.5, false}, {kInfinity, false}}), HasSubstr("1 distances are not finite"));
  EXPECT_THAT(why({{1, true}, {2, false}, {std::nan(""), true}}), HasSubstr("not finite"));
  EXPECT_THAT(why({{1e300, true}, {-1e300, false}, {1e300, false}}), HasSubstr("too great"));
}

TEST(DistanceCounts, KeepNoMoreThanDistancesDifferAndAddUp) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> distance(1, 2);
  DistanceCounts one, other, all;
  for (int i = 0; i < 100'000; ++i) {
    const double d = distance(random);
    const bool relevant = d + distance(random) < 2.5;
    (i % 2 == 0 ? one : other).Add(d, relevant);
    all.Add(d, relevant);
  }
  EXPECT_LE(all.bins().size(), 16'384u);
  one.Add(other);
  const auto sum = FitRelevance(one), together = FitRelevance(all);
  ASSERT_TRUE(sum.ok() && together.ok());
  EXPECT_NEAR(sum->intercept, together->intercept, 1e-6);
  EXPECT_NEAR(sum->steepness, together->steepness, 1e-6);
}

TEST(Equate, GivesDistancesOfOneLogOddsEachOther) {
  const RelevanceFit from{2, 5}, to{7, 0.5};
  const auto map = Equate(from, to);
  ASSERT_TRUE(map.ok()) << map.status();
  for (const double d : {-1.0, 0.0, 0.3, 4.0}) EXPECT_NEAR(LogOdds(from, d), LogOdds(to, map->Of(d)), 1e-12);
  EXPECT_DOUBLE_EQ(map->slope, 10);
  EXPECT_DOUBLE_EQ(map->offset, 10);
  const auto same = Equate(to, to);
  EXPECT_EQ(*same, DistanceCalibration());
}

TEST(Equate, UndoesAScaleAndAShift) {
  const auto to = FitRelevance(Drawn(5, 6, 2, 50'000, [](double d) { return d; }));
  const auto from = FitRelevance(Drawn(5, 6, 2, 50'000, [](double d) { return 0.6 * d - 3; }));
  ASSERT_TRUE(to.ok() && from.ok());
  const auto map = Equate(*from, *to);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_NEAR(map->slope, 1 / 0.6, 1e-3);
  EXPECT_NEAR(map->offset, 3 / 0.6, 1e-3);
}

TEST(Equate, IsNoMapWhereItWouldBeNone) {
  const auto refused = [](const RelevanceFit& from, const RelevanceFit& to) {
    return Equate(from, to).status().code() == absl::StatusCode::kFailedPrecondition;
  };
  EXPECT_TRUE(refused({1, 1}, {1, 0}));
  EXPECT_TRUE(refused({1, 0}, {1, 1}));
  EXPECT_TRUE(refused({1, -1}, {1, 1}));
  EXPECT_TRUE(refused({1, 1}, {1, 1e-9}));
  EXPECT_TRUE(refused({std::nan(""), 1}, {1, 1}));
  EXPECT_TRUE(refused({1e30, 1}, {1, 1}));
}

TEST(MatchNearest, GivesOneLegTheMeanAndDeviationOfTheOther) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  // Far from 0, where sums of squares would cancel; in parts, as halves of probes are added.
  DistanceMoments from, to, part;
  std::vector<double> given;
  for (int i = 0; i < 2'000; ++i) {
    const double z = normal(random);
    given.push_back(1e8 + 0.5 * z);
    (i % 3 == 0 ? part : from).Add(given.back());
    to.Add(3 + 2 * z);
  }
  from.Add(part);
  EXPECT_EQ(from.count, 2'000);
  const auto map = MatchNearest(from, to);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_NEAR(map->slope, 4, 1e-6);
  DistanceMoments mapped;
  for (const double d : given) mapped.Add(map->Of(d));
  EXPECT_NEAR(mapped.mean, to.mean, 1e-6);
  EXPECT_NEAR(mapped.deviation(), to.deviation(), 1e-6);
}

TEST(MatchNearest, SaysWhatDistancesAreNotGoodFor) {
  DistanceMoments spread, alike, none;
  for (int i = 0; i < 9; ++i) spread.Add(i), alike.Add(0.1);
  for (const auto& [from, to] : {std::pair(alike, spread), std::pair(spread, alike), std::pair(none, spread)}) {
    EXPECT_THAT(std::string(MatchNearest(from, to).status().message()), HasSubstr("the same"));
  }
  DistanceMoments far = spread;
  far.Add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(MatchNearest(far, spread).status().code(), absl::StatusCode::kFailedPrecondition);
  DistanceMoments huge = spread;
  huge.squares = 1e30;
  EXPECT_THAT(std::string(MatchNearest(spread, huge).status().message()), HasSubstr("slope"));
}

TEST(DistanceCalibration, NamesTheNumberThatCannotBe) {
  EXPECT_TRUE(DistanceCalibration().Validate().ok());
  EXPECT_THAT(MessageOf((DistanceCalibration{0, 0}).Validate()), HasSubstr("slope"));
  EXPECT_THAT(MessageOf((DistanceCalibration{0, -1}).Validate()), HasSubstr("slope"));
  EXPECT_THAT(MessageOf((DistanceCalibration{0, std::nan("")}).Validate()), HasSubstr("slope"));
  EXPECT_THAT(MessageOf((DistanceCalibration{1e19, 1}).Validate()), HasSubstr("offset"));
  EXPECT_THAT(MessageOf((DistanceCalibration{std::nan(""), 1}).Validate()), HasSubstr("offset"));
}

}  // namespace
}  // namespace lightcone
