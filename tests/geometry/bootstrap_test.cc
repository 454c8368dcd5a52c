#include "stats/bootstrap.h"

#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lightcone {
namespace {

TEST(BootstrapMean, HoldsTheTrueMeanAboutAsOftenAsItSays) {
  std::mt19937 random(3);
  for (const double truth : {0.1, 0.5, 0.9}) {
    std::bernoulli_distribution hit(truth);
    int held = 0;
    for (int trial = 0; trial < 300; ++trial) {
      std::vector<double> values(150);
      for (double& v : values) v = hit(random) ? 1 : 0;
      const Estimate e = BootstrapMean(values, 0, 1);
      held += e.low <= truth && truth <= e.high;
    }
    EXPECT_GE(held, 270) << truth;  // 95 % of 300 are 285
    EXPECT_LE(held, 299) << truth;  // an interval that always holds says nothing
  }
}

TEST(BootstrapMean, FewProbesThatAllAgreeAreNotCertain) {
  const Estimate few = BootstrapMean(std::vector<double>(100, 0.0), -1, 1);
  EXPECT_EQ(few.value, 0);
  EXPECT_DOUBLE_EQ(few.low, -0.03);
  EXPECT_DOUBLE_EQ(few.high, 0.03);
  const Estimate many = BootstrapMean(std::vector<double>(1'000, 1.0), 0, 1);
  EXPECT_DOUBLE_EQ(many.low, 0.997);
  EXPECT_DOUBLE_EQ(many.high, 1);
  const Estimate one = BootstrapMean(std::vector<double>{1.0}, 0, 1);
  EXPECT_EQ(one.low, 0);
  EXPECT_EQ(BootstrapMean({}, 0, 1).samples, 0);
}

TEST(BootstrapMean, NarrowsWithTheRootOfTheSamplesAndIsTheSameEachTime) {
  const auto width = [](size_t n) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i % 2);
    const Estimate e = BootstrapMean(values, 0, 1);
    return e.high - e.low;
  };
  EXPECT_NEAR(width(100) / width(1'600), 4, 0.6);
  EXPECT_NEAR(width(400), 2 * 1.96 * 0.5 / 20, 0.01);
  EXPECT_EQ(width(400), width(400));
}

TEST(BootstrapQuotient, HoldsTheTrueQuotientAboutAsOftenAsItSays) {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(0, 0.3);
  int held = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> gained(200), possible(200);
    for (size_t i = 0; i < 200; ++i) {
      const double common = noise(random);  // a probe that is hard for one is hard for the other
      possible[i] = 0.4 + common;
      gained[i] = 0.3 + common + noise(random);
    }
    const std::optional<Estimate> e = BootstrapQuotient(gained, possible, -3, 3);
    ASSERT_TRUE(e.has_value());
    EXPECT_EQ(e->samples, 200);
    held += e->low <= 0.75 && 0.75 <= e->high;
  }
  EXPECT_GE(held, 270);
  EXPECT_LE(held, 299);
}

TEST(BootstrapQuotient, FewProbesThatAllAgreeAreNotCertain) {
  const std::vector<double> all(12, 0.5);
  const std::optional<Estimate> few = BootstrapQuotient(all, all, -1, 1);
  ASSERT_TRUE(few.has_value());
  EXPECT_DOUBLE_EQ(few->value, 1);
  EXPECT_DOUBLE_EQ(few->low, 1 - 0.25 * 3);  // a quarter of them at -1 instead
  EXPECT_DOUBLE_EQ(few->high, 1 + 0.25);
  const std::optional<Estimate> one = BootstrapQuotient(std::vector<double>{0.5}, std::vector<double>{0.5}, -1, 1);
  ASSERT_TRUE(one.has_value());
  EXPECT_DOUBLE_EQ(one->low, -2);
  EXPECT_DOUBLE_EQ(one->high, 2);
}

TEST(BootstrapQuotient, SaysNothingWhereTheDenominatorMayBeNothing) {
  EXPECT_FALSE(BootstrapQuotient({}, {}, -1, 1).has_value());
  EXPECT_FALSE(BootstrapQuotient(std::vector<double>{1, 2}, std::vector<double>{1, -1}, -1, 2).has_value());
  std::vector<double> values(100), doubtful(100), sure(100, -0.5);
  for (size_t i = 0; i < 100; ++i) {
    values[i] = static_cast<double>(i % 3);
    doubtful[i] = i % 2 == 0 ? 1.0 : -0.95;
  }
  EXPECT_FALSE(BootstrapQuotient(values, doubtful, 0, 2).has_value());
  const std::optional<Estimate> negative = BootstrapQuotient(values, sure, 0, 2);
  ASSERT_TRUE(negative.has_value());
  EXPECT_NEAR(negative->value, -1.98, 1e-12);
  EXPECT_LT(negative->low, -1.98);
  EXPECT_GT(negative->high, -1.98);
}

}  // namespace
}  // namespace lightcone
