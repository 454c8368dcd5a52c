#include "geometry/bound_query.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/status.h"
#include "geometry/kernels.h"
#include "geometry/lorentz.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone {
namespace {

using test::RandomNorm;
using test::RandomVector;
using test::SpacesOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

BoundQuery Bind(const Space& space, const std::vector<float>& z) { return BoundQuery::Make(space, space, z).value(); }

double Distance(const Space& space, const std::vector<float>& x, const std::vector<float>& y) {
  return Bind(space, x).Distance(y);
}

std::string NameOf(const Space& space) {
  return StrCat(MetricName(space.metric), " K=", space.curvature, " zeta=", space.clip_radius);
}

TEST(BoundQuery, RefusesSpacesWhoseDistancesAreNotComparable) {
  const std::vector<float> z = {1, 0};
  const Space lorentz{Metric::kLorentz, 2, 1.0, 1.0};
  const auto error = [&](const Space& items) {
    const auto query = BoundQuery::Make(lorentz, items, z);
    EXPECT_EQ(query.status().code(), absl::StatusCode::kFailedPrecondition);
    return MessageOf(query.status());
  };
  EXPECT_THAT(error({Metric::kLorentz, 2, 0.5, 1.0}), AllOf(HasSubstr("curvature 1,"), HasSubstr("curvature 0.5")));
  EXPECT_THAT(error({Metric::kLorentz, 3, 1.0, 1.0}), AllOf(HasSubstr("dimension 2"), HasSubstr("dimension 3")));
  EXPECT_THAT(error({Metric::kCosine, 2}), AllOf(HasSubstr("is lorentz"), HasSubstr("are cosine")));
  EXPECT_TRUE(BoundQuery::Make(lorentz, {Metric::kLorentz, 2, 1.0, 1.2}, z).ok()) << "clips may differ";
}

TEST(BoundQuery, RefusesAQueryThatIsNoVectorOfItsSpace) {
  const Space space{Metric::kCosine, 2};
  EXPECT_EQ(BoundQuery::Make(space, space, std::vector<float>{0, 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(BoundQuery::Make(space, space, std::vector<float>{0, std::nanf("")}).status()),
              HasSubstr("vector[1]"));
}

TEST(BoundQuery, ClipsEachSideByItsOwnRadius) {
  const Space old_space{Metric::kLorentz, 2, 1.0, 1.0};
  const Space new_space{Metric::kLorentz, 2, 1.0, 1.2};
  const std::vector<float> z = {30, 40};
  const auto query = BoundQuery::Make(new_space, old_space, z);
  EXPECT_NEAR(query->Distance(z), 0.2, 1e-12) << "same direction, radii 1.2 and 1.0";
}

TEST(BoundQuery, DistanceMatchesThePlainFormulas) {
  const std::vector<float> x = {3, 4}, y = {0, 2};
  EXPECT_NEAR(Distance({Metric::kCosine, 2}, x, y), 0.2, 1e-12);
  EXPECT_NEAR(Distance({Metric::kInnerProduct, 2}, x, y), -8.0, 1e-12);
  EXPECT_NEAR(Distance({Metric::kEuclidean, 2}, x, y), std::sqrt(13.0), 1e-12);
  const Space space{Metric::kLorentz, 2, 0.5, 1.0};
  const std::vector<double> clipped_x = {0.6, 0.8}, clipped_y = {0, 1};
  EXPECT_NEAR(Distance(space, x, y),
              lorentz::Geodesic(lorentz::Exp0(clipped_x, 0.5), lorentz::Exp0(clipped_y, 0.5), 0.5), 1e-7);
}

TEST(BoundQuery, DistanceIsSymmetricZeroAtItselfAndObeysTheTriangle) {
  std::mt19937_64 random(2);
  for (const Space& space : SpacesOf(9)) {
    SCOPED_TRACE(NameOf(space));
    for (int trial = 0; trial < 50; ++trial) {
      const auto x = RandomVector(random, 9, RandomNorm(random));
      const auto y = RandomVector(random, 9, RandomNorm(random));
      const auto z = RandomVector(random, 9, RandomNorm(random));
      EXPECT_EQ(Distance(space, x, y), Distance(space, y, x));
      if (space.metric == Metric::kInnerProduct) continue;
      EXPECT_EQ(Distance(space, x, x), 0.0);
      EXPECT_GE(Distance(space, x, y), 0.0);
      if (space.metric == Metric::kCosine) continue;  // 1 - cos is no metric
      EXPECT_LE(Distance(space, x, z), (Distance(space, x, y) + Distance(space, y, z)) * (1 + 1e-12) + 1e-12);
    }
  }
}

TEST(BoundQuery, LorentzDistanceResolvesNearDuplicates) {
  const Space space{Metric::kLorentz, 2, 1.0, 2.0};
  const std::vector<float> x = {1.0f, 0.0f}, y = {1.0f, 1e-9f};
  EXPECT_NEAR(Distance(space, x, y) / (std::sinh(1.0) * 1e-9), 1.0, 1e-6);
}

TEST(BoundQuery, ZeroVectorsAreTheOriginOfTheHyperboloid) {
  const Space space{Metric::kLorentz, 3, 1.0, 1.0};
  const std::vector<float> zero(3), x = {0.5f, 0, 0};
  EXPECT_NEAR(Distance(space, zero, x), 0.5, 1e-15);
  EXPECT_EQ(Distance(space, zero, zero), 0.0);
}

TEST(BoundQuery, ScoreAndDistanceAreOneOrder) {
  for (const Space& space : SpacesOf(2)) {
    SCOPED_TRACE(NameOf(space));
    const BoundQuery query = Bind(space, {0.3f, 0.4f});
    double last = std::numeric_limits<double>::infinity();
    for (double d = 0.01; d < 1.9; d += 0.1) {
      const double score = query.ScoreOfDistance(d);
      EXPECT_LT(score, last);
      last = score;
      if (space.metric != Metric::kLorentz) {
        EXPECT_NEAR(query.DistanceFromScore(static_cast<float>(score)), d, 1e-5);
      }
    }
  }
  const BoundQuery query = Bind({Metric::kLorentz, 2, 1.0, 1.2}, {0.3f, 0.4f});
  EXPECT_NEAR(query.DistanceFromScore(static_cast<float>(query.ScoreOfDistance(0.7))), 0.7, 1e-6);
  EXPECT_EQ(query.DistanceFromScore(-0.5f), 0.0) << "rounding may lift a score above its maximum";
  EXPECT_EQ(query.ScoreOfDistance(-1), std::numeric_limits<double>::infinity());
}

// The error of every kernel score stays within the bound, for every metric, curvature, norm and dimension tried.
TEST(BoundQuery, ScoreErrorStaysWithinTheBoundOnThousandsOfRows) {
  std::mt19937_64 random(3);
  double worst = 0;
  for (int dimension : {1, 2, 15, 16, 17, 64, 128, 300}) {
    for (const Space& space : SpacesOf(dimension)) {
      SCOPED_TRACE(StrCat(NameOf(space), " d=", dimension));
      for (int trial = 0; trial < 4; ++trial) {
        const BoundQuery query = Bind(space, RandomVector(random, dimension, RandomNorm(random)));
        const test::RowBlock block(random, space, 24, dimension, 0);
        std::vector<float> scores(block.size());
        ScoreRows(query, block.data(), block.stride, block.factors.data(), block.size(), scores.data());
        for (std::size_t i = 0; i < block.size(); ++i) {
          const double exact = query.ScoreOfDistance(query.Distance(block.rows[i]));
          const double bound = query.ScoreErrorMax(block.factors[i].bias);
          // The truth itself goes through a distance in float64 and back; allow for that.
          const double slack = 1e-12 * (std::abs(exact) + 1);
          EXPECT_LE(std::abs(scores[i] - exact), bound + slack);
          worst = std::max(worst, std::abs(scores[i] - exact) / (bound + slack));
          if (space.metric == Metric::kLorentz || space.metric == Metric::kCosine) {
            EXPECT_LE(bound, query.ScoreErrorMax() * (1 + 1e-12));
          }
        }
      }
    }
  }
  EXPECT_GT(worst, 0.01) << "a bound that is never approached is of no use";
}

TEST(BoundQuery, ScoreErrorBoundIsTightEnoughToRankWith) {
  std::mt19937_64 random(4);
  const Space space{Metric::kLorentz, 128, 1.0, 1.2};
  EXPECT_LT(Bind(space, RandomVector(random, 128, 1.2)).ScoreErrorMax(), 3e-5);
}

TEST(BoundQuery, CandidatesWithinTwiceTheErrorContainTheExactTopK) {
  std::mt19937_64 random(5);
  const Space space{Metric::kLorentz, 32, 1.0, 1.0};
  const std::vector<float> centre = RandomVector(random, 32, 0.9);
  std::vector<float> rows;
  std::vector<RowFactors> factors;
  constexpr int kRows = 500, kTop = 10;
  std::vector<double> exact;
  const BoundQuery query = Bind(space, centre);
  for (int i = 0; i < kRows; ++i) {  // a tight cluster: float32 scores are mostly noise here
    std::vector<float> z = RandomVector(random, 32, 1e-4);
    for (int j = 0; j < 32; ++j) z[j] += centre[j];
    rows.insert(rows.end(), z.begin(), z.end());
    factors.push_back(FactorsOf(space, z));
    exact.push_back(query.Distance(z));
  }
  std::vector<float> scores(kRows);
  ScoreRows(query, rows.data(), 32, factors.data(), kRows, scores.data());
  std::vector<float> sorted = scores;
  std::sort(sorted.rbegin(), sorted.rend());
  const double threshold = sorted[kTop - 1] - 2 * query.ScoreErrorMax();
  std::vector<double> ranked = exact;
  std::sort(ranked.begin(), ranked.end());
  for (int i = 0; i < kRows; ++i) {
    if (exact[i] <= ranked[kTop - 1]) {
      EXPECT_GE(scores[i], threshold);
    }
  }
}

}  // namespace
}  // namespace lightcone
