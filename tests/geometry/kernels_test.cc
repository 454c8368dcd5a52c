// Every kernel on every instruction set of this machine against float64, with tails, gaps and misaligned rows.
#include "geometry/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/strings.h"
#include "geometry/exact_kernels.h"
#include "geometry/lorentz.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone {
namespace {

using test::RandomNorm;
using test::RandomVector;
using test::RowBlock;

std::vector<int> Dimensions() {
  std::vector<int> dimensions;
  for (int d = 1; d <= 130; ++d) dimensions.push_back(d);
  dimensions.insert(dimensions.end(), {256, 512});
  return dimensions;
}

// The four metrics at everyday settings.
std::vector<Space> EverydaySpaces(int dimension) {
  return {{Metric::kLorentz, dimension, 1.0, 1.2},
          {Metric::kCosine, dimension},
          {Metric::kInnerProduct, dimension},
          {Metric::kEuclidean, dimension}};
}

double Truth(const BoundQuery& query, const std::vector<float>& row) {
  return query.ScoreOfDistance(query.Distance(row));
}

class KernelsOnEveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { ForceKernelTarget(GetParam()); }
  void TearDown() override { ForceKernelTarget(0); }

  static void ExpectScore(const BoundQuery& query, const RowBlock& block, std::size_t row, float score) {
    const double truth = Truth(query, block.rows[row]);
    ASSERT_NEAR(score, truth, query.ScoreErrorMax(block.factors[row].bias) + 1e-12 * std::abs(truth) + 1e-15)
        << MetricName(query.item_space().metric) << " d=" << query.dimension() << " row " << row;
  }
};

TEST_P(KernelsOnEveryTarget, IsTheOneInUse) { EXPECT_EQ(ActiveKernelTarget(), GetParam()); }

TEST_P(KernelsOnEveryTarget, ScoreRowsAgreesForEveryDimensionCountGapAndMisalignment) {
  std::mt19937_64 random(11);
  for (int d : Dimensions()) {
    for (const Space& space : EverydaySpaces(d)) {
      const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, d, RandomNorm(random))).value();
      const RowBlock block(random, space, 7, d + d % 3, d % 5);
      for (std::size_t n : {0, 1, 4, 7}) {
        std::vector<float> scores(n + 1, 123.0f);
        ScoreRows(query, block.data(), block.stride, block.factors.data(), n, scores.data());
        for (std::size_t i = 0; i < n; ++i) ExpectScore(query, block, i, scores[i]);
        ASSERT_EQ(scores[n], 123.0f) << "wrote past the end";
      }
    }
  }
}

TEST_P(KernelsOnEveryTarget, ScoreRowsGatheredAgreesForAnyOrderWithRepeats) {
  std::mt19937_64 random(12);
  const std::vector<std::uint32_t> ids = {8, 0, 3, 3, 7, 1, 8, 2, 5, 4, 6};
  for (int d : Dimensions()) {
    for (const Space& space : EverydaySpaces(d)) {
      const BoundQuery query = BoundQuery::Make(space, space, RandomVector(random, d, RandomNorm(random))).value();
      const RowBlock block(random, space, 9, d + d % 4, d % 3);
      for (std::size_t n : {std::size_t{0}, std::size_t{3}, ids.size()}) {
        std::vector<float> scores(n + 1, 123.0f);
        ScoreRowsGathered(query, block.data(), block.stride, block.factors.data(), ids.data(), n, scores.data());
        for (std::size_t i = 0; i < n; ++i) ExpectScore(query, block, ids[i], scores[i]);
        ASSERT_EQ(scores[n], 123.0f) << "wrote past the end";
      }
    }
  }
}

// ScanRowsBatch gives those of `scores` that reach a floor: all, none, or about half of them.
void ExpectHits(const QueryBatch& queries, const RowBlock& block, std::size_t n, const std::vector<float>& scores,
                std::size_t score_stride) {
  std::vector<float> floors;
  for (std::size_t q = 0; q < queries.size(); ++q) {
    floors.push_back(q % 5 == 0   ? -std::numeric_limits<float>::infinity()
                     : q % 5 == 1 ? std::numeric_limits<float>::infinity()
                                  : scores[q * score_stride + q % n]);
  }
  std::vector<RowHit> hits(queries.size() * n);
  std::vector<std::size_t> found(queries.size(), 99);
  ScanRowsBatch(queries, block.data(), block.stride, block.factors.data(), n, floors.data(), hits.data(), found.data());
  for (std::size_t q = 0; q < queries.size(); ++q) {
    std::size_t expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float score = scores[q * score_stride + i];
      if (score < floors[q]) continue;
      ASSERT_LT(expected, found[q]) << "query " << q << " of " << queries.size() << ", row " << i;
      ASSERT_EQ(hits[q * n + expected].row, i);
      ASSERT_EQ(hits[q * n + expected].score, score);
      ++expected;
    }
    ASSERT_EQ(expected, found[q]);
  }
}

TEST_P(KernelsOnEveryTarget, ScoreRowsBatchAgreesForEveryNumberOfQueries) {
  std::mt19937_64 random(13);
  for (int d : {1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 100, 128, 130, 512}) {
    for (const Space& space : EverydaySpaces(d)) {
      const RowBlock block(random, space, d == 512 ? 131 : 39, d + 1, 1);  // the long ones: more than one tile
      for (int count : {0, 1, 3, 8, 9, 16, 21, 31, 48, 64, 90}) {
        std::vector<BoundQuery> queries;
        for (int q = 0; q < count; ++q) {
          queries.push_back(BoundQuery::Make(space, space, RandomVector(random, d, RandomNorm(random))).value());
        }
        const std::size_t n = count % 3 == 1 ? 1 + static_cast<std::size_t>(d) % 3 : block.size();
        const std::size_t score_stride = n + 2;
        std::vector<float> scores(count * score_stride + 1, 123.0f);
        std::vector<const BoundQuery*> pointers;
        for (const BoundQuery& query : queries) pointers.push_back(&query);
        ScoreRowsBatch(QueryBatch(pointers), block.data(), block.stride, block.factors.data(), n, scores.data(),
                       score_stride);
        for (int q = 0; q < count; ++q) {
          for (std::size_t i = 0; i < n; ++i) {
            ExpectScore(queries[q], block, i, scores[q * score_stride + i]);
          }
          ASSERT_EQ(scores[q * score_stride + n], 123.0f) << "wrote past the end of a query's scores";
        }
        ExpectHits(QueryBatch(pointers), block, n, scores, score_stride);
      }
    }
  }
}

// What no row that was let in has, a damaged one may: it is told, and hides no other.
TEST_P(KernelsOnEveryTarget, ScanRowsBatchKeepsWhatIsNoNumberAndAllBesideIt) {
  std::mt19937_64 random(16);
  const Space space{Metric::kEuclidean, 32};
  RowBlock block(random, space, 8, 32, 0);
  std::vector<BoundQuery> queries;
  for (int q = 0; q < 16; ++q) queries.push_back(BoundQuery::Make(space, space, RandomVector(random, 32, 1.0)).value());
  std::vector<const BoundQuery*> pointers;
  for (const BoundQuery& query : queries) pointers.push_back(&query);
  std::vector<float> rows(block.data(), block.data() + 8 * block.stride);
  for (std::size_t damaged = 0; damaged < 8; ++damaged) {
    std::vector<float> changed = rows;
    changed[damaged * block.stride + 5] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> floors(16, -1e9f);
    std::vector<RowHit> hits(16 * 8);
    std::vector<std::size_t> found(16);
    ScanRowsBatch(QueryBatch(pointers), changed.data(), block.stride, block.factors.data(), 8, floors.data(),
                  hits.data(), found.data());
    EXPECT_THAT(found, testing::Each(8u)) << damaged;
  }
}

TEST_P(KernelsOnEveryTarget, DotAgreesForEveryLength) {
  std::mt19937_64 random(14);
  EXPECT_EQ(Dot(nullptr, nullptr, 0), 0.0f);
  for (int d : Dimensions()) {
    const auto x = RandomVector(random, d + 1, 1.0);
    const auto y = RandomVector(random, d, 1.0);
    double truth = 0;
    for (int i = 0; i < d; ++i) truth += static_cast<double>(x[i + 1]) * y[i];
    ASSERT_NEAR(Dot(x.data() + 1, y.data(), d), truth, 2e-6) << d;
  }
}

TEST_P(KernelsOnEveryTarget, GeodesicRowsStaysRelativelyExactDownToNearDuplicates) {
  std::mt19937_64 random(15);
  for (int d : Dimensions()) {
    const double curvature = d % 2 ? 1.0 : 0.3;
    const auto x = RandomVector(random, d, 0.8);
    std::vector<std::vector<float>> rows;
    std::vector<float> values(2);
    for (double gap : {1e-5, 1e-3, 0.1, 1.0}) {
      auto y = RandomVector(random, d, gap);
      for (int i = 0; i < d; ++i) y[i] += x[i];
      values.insert(values.end(), y.begin(), y.end());
      rows.push_back(std::move(y));
    }
    std::vector<float> distances(rows.size());
    GeodesicRows(curvature, x.data(), d, values.data() + 2, d, rows.size(), distances.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> from(x.begin(), x.end()), to(rows[i].begin(), rows[i].end());
      const double truth = lorentz::Geodesic(from, to, curvature);
      ASSERT_NEAR(distances[i], truth, 1e-9 + 5e-6 * truth) << "d=" << d << " row " << i;
    }
  }
}

TEST_P(KernelsOnEveryTarget, GeodesicRowsIsAsNearAsItSaysForFarPoints) {
  std::mt19937_64 random(16);
  for (const double r : {0.3, 1.2, 3.0, 5.0, 6.0}) {
    for (const double s : {0.3, 1.2, 3.0, 5.5, 6.0}) {
      for (const double turn : {0.0, 0.01, 1.0}) {  // 0: on one ray
        const int d = 17;
        std::vector<float> x = RandomVector(random, d, 1.0), y = RandomVector(random, d, turn);
        for (int i = 0; i < d; ++i) y[i] += x[i];
        const auto reach = [](std::vector<float>& z, double radius) {
          double squares = 0;
          for (const float v : z) squares += double{v} * v;
          for (float& v : z) v = static_cast<float>(v * std::sinh(radius) / std::sqrt(squares));
        };
        reach(x, r);
        reach(y, s);
        const std::vector<double> from(x.begin(), x.end()), to(y.begin(), y.end());
        const double truth = lorentz::Geodesic(from, to, 1.0);
        if (truth < 1e-4) continue;
        float distance = 0;
        GeodesicRows(1.0, x.data(), d, y.data(), d, 1, &distance);
        const double apart = (std::cosh(r) - std::cosh(s)) / (2 * std::sinh(truth / 2));
        ASSERT_NEAR(distance, truth, 5e-7 * (1 + apart * apart) * truth) << r << " " << s << " " << turn;
      }
    }
  }
}

TEST_P(KernelsOnEveryTarget, ExactSumsAreTheSameToTheLastBitOnEveryMachine) {
  std::mt19937_64 random(21);
  for (size_t n = 0; n <= 70; ++n) {
    const auto x = RandomVector(random, static_cast<int>(n) + 1, 1.0);
    std::vector<double> q;
    for (size_t i = 0; i < n; ++i) q.push_back(1.1 * static_cast<double>(x[i]));
    constexpr double kScale = 0.3;
    double squares[8] = {}, gaps[8] = {}, products[8] = {};
    for (size_t i = 0; i < n; ++i) {
      const double value = static_cast<double>(x[i + 1]), gap = q[i] - value * kScale;
      squares[i % 8] += value * value;
      gaps[i % 8] += gap * gap;
      products[i % 8] += q[i] * value;
    }
    const auto sum = [](const double(&s)[8]) {
      return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    };
    const float* const unaligned = x.data() + 1;
    EXPECT_EQ(ExactSquares(unaligned, n), sum(squares)) << n;
    EXPECT_EQ(ExactSquaredGap(q.data(), unaligned, kScale, n), sum(gaps)) << n;
    EXPECT_EQ(ExactDot(q.data(), unaligned, n), sum(products)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelsOnEveryTarget, ::testing::ValuesIn(KernelTargets()),
                         [](const auto& info) { return std::string(KernelTargetName(info.param)); });

TEST(KernelTargets, ForcingNoneReturnsToTheBest) {
  const std::int64_t best = ActiveKernelTarget();
  ASSERT_THAT(KernelTargets(), ::testing::Not(::testing::IsEmpty()));
  EXPECT_EQ(best, KernelTargets().front());
  ForceKernelTarget(KernelTargets().back());
  EXPECT_EQ(ActiveKernelTarget(), KernelTargets().back());
  ForceKernelTarget(0);
  EXPECT_EQ(ActiveKernelTarget(), best);
}

}  // namespace
}  // namespace lightcone
