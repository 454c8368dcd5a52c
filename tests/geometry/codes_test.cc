// int8 codes: what a kernel says of a row, and how far off it may be, against float64; on every instruction set.
#include "geometry/codes.h"

#include <cmath>
#include <limits>
#include <random>

#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone {
namespace {

using test::RandomNorm;
using test::RandomVector;
using test::SpacesOf;

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

// Rows of a space and their codes, in an allocation that ends with the last row.
struct CodedRows {
  CodedRows(std::mt19937_64& random, const Space& space, std::size_t count) {
    block.stride = CodeStride(space.dimension);
    codes.resize(count * block.stride);
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(RandomVector(random, space.dimension, RandomNorm(random)));
      if (i == 0 && space.metric != Metric::kCosine) rows[0].assign(rows[0].size(), 0.0f);
      factors.push_back(FactorsOf(space, rows.back()));
      EncodeRow(factors.back(), rows.back(), codes.data() + i * block.stride, &block);
      bias_max = std::max(bias_max, factors.back().bias);
    }
    block.rows = codes.data();
  }

  std::vector<std::uint8_t> codes;
  std::vector<std::vector<float>> rows;
  std::vector<RowFactors> factors;
  CodeBlock block;
  float bias_max = 0;
};

double Truth(const BoundQuery& query, const std::vector<float>& row) {
  return query.ScoreOfDistance(query.Distance(row));
}

class CodesOnEveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { ForceKernelTarget(GetParam()); }
  void TearDown() override { ForceKernelTarget(0); }
};

TEST_P(CodesOnEveryTarget, ScoresAreAsNearToTheExactOnesAsTheirBoundSays) {
  std::mt19937_64 random(21);
  for (const int d : {1, 2, 3, 15, 16, 17, 25, 48, 63, 64, 65, 96, 127, 128, 130, 200, 513, 768}) {
    for (const Space& space : SpacesOf(d)) {
      const CodedRows coded(random, space, 11);
      const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, d, RandomNorm(random))).value();
      const CodeQuery code_query(query);
      const float slack = code_query.Slack(coded.block, coded.bias_max);
      std::vector<CodeHit> hits(coded.rows.size());
      ASSERT_EQ(
          ScanCodes(code_query, coded.codes.data(), coded.block.stride, hits.size(), slack, kNoFloor, hits.data()),
          hits.size());
      std::vector<std::uint32_t> ids = {10, 3, 3, 0, 7, 5, 1, 2, 4, 6, 9};
      std::vector<float> scores(ids.size());
      ScoreCodesGathered(code_query, coded.codes.data(), coded.block.stride, ids.data(), ids.size(), scores.data());
      for (std::size_t i = 0; i < hits.size(); ++i) {
        const double truth = Truth(query, coded.rows[i]);
        ASSERT_EQ(hits[i].row, i);
        ASSERT_NEAR(hits[i].score, truth, hits[i].error + 1e-12 * std::abs(truth) + 1e-15)
            << MetricName(space.metric) << " K " << space.curvature << " d " << d << " row " << i;
        ASSERT_LE(hits[i].error, code_query.ErrorMax(coded.block, coded.bias_max) * (1 + 1e-6));
        ASSERT_NEAR(scores[i], hits[ids[i]].score, slack) << d;
      }
    }
  }
}

TEST_P(CodesOnEveryTarget, AScanKeepsTheRowsThatReachTheFloorAndNoOther) {
  std::mt19937_64 random(22);
  for (const int d : {3, 64, 100, 128}) {
    const Space space{Metric::kLorentz, d, 1.0, 1.2};
    const CodedRows coded(random, space, 203);
    const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, d, 1.0)).value();
    const CodeQuery code_query(query);
    const float slack = code_query.Slack(coded.block, coded.bias_max);
    std::vector<CodeHit> all(coded.rows.size()), kept(coded.rows.size());
    ScanCodes(code_query, coded.codes.data(), coded.block.stride, all.size(), slack, kNoFloor, all.data());
    for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7}, all.size()}) {
      const float floor = all[n / 2].score + all[n / 2].error;
      const std::size_t found =
          ScanCodes(code_query, coded.codes.data(), coded.block.stride, n, slack, floor, kept.data());
      std::size_t expected = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (all[i].score + all[i].error < floor) continue;
        ASSERT_LT(expected, found);
        ASSERT_EQ(kept[expected].row, i);
        ++expected;
      }
      ASSERT_EQ(found, expected);
    }
  }
}

TEST_P(CodesOnEveryTarget, TheBoundIsTightEnoughToBeOfUse) {
  std::mt19937_64 random(23);
  const Space space{Metric::kLorentz, 128, 1.0, 1.2};
  const CodedRows coded(random, space, 100);
  const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, 128, 1.2)).value();
  const CodeQuery code_query(query);
  // |a| = sinh(1.2) = 1.5; a row of that length loses about .6 % of it.
  EXPECT_LT(code_query.ErrorMax(coded.block, coded.bias_max), 0.03);
  EXPECT_LT(code_query.Slack(coded.block, coded.bias_max), 3e-4);
}

INSTANTIATE_TEST_SUITE_P(All, CodesOnEveryTarget, ::testing::ValuesIn(KernelTargets()),
                         [](const auto& info) { return std::string(KernelTargetName(info.param)); });

TEST(Codes, AreTheNumbersThemselvesWhereTheyFit) {
  const Space space{Metric::kInnerProduct, 5};
  const std::vector<float> z = {127, -127, 64, 0, -1};
  std::vector<std::uint8_t> codes(CodeStride(5));
  CodeBlock block;
  EncodeRow(FactorsOf(space, z), z, codes.data(), &block);
  EXPECT_EQ(std::vector<int>(codes.begin(), codes.begin() + 6), (std::vector<int>{255, 1, 192, 128, 127, 128}));
  EXPECT_LT(block.error_max, 1e-30);
  EXPECT_NEAR(block.norm_max, std::sqrt(2 * 127.0 * 127 + 64 * 64 + 1), 1e-3);
}

TEST(Codes, KernelsOnDotProductsOfBytesAreUsedWhereTheProcessorHasThem) {
  EXPECT_THAT(CodeKernelName(), ::testing::AnyOf("vnni", "int16"));
}

}  // namespace
}  // namespace lightcone
