#include "geometry/bootstrap.h"

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

}  // namespace
}  // namespace lightcone
