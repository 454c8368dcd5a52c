#include "stats/query_whitening.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "stats/distance_fusion.h"

namespace lightcone {
namespace {

using Rows = std::vector<std::vector<float>>;

Rows RandomRows(size_t rows, size_t dimension, float offset) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Rows all(rows, std::vector<float>(dimension));
  for (auto& row : all) {
    for (float& x : row) x = offset + normal(random);
  }
  return all;
}

std::vector<double> Direction(const std::vector<float>& z) {
  double square = 0;
  for (const float x : z) square += static_cast<double>(x) * x;
  std::vector<double> u(z.begin(), z.end());
  for (double& x : u) x /= std::sqrt(square);
  return u;
}

// Solves a x = b by Gaussian elimination.
std::vector<double> Solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i; r < n; ++r) pivot = std::abs(a[r][i]) > std::abs(a[pivot][i]) ? r : pivot;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = 0; i < n; ++i) b[i] /= a[i][i];
  return b;
}

TEST(QueryWhitening, SolvesTheGalleryCovarianceWithItsRidge) {
  for (const auto& [rows, dimension] : {std::pair<size_t, size_t>(200, 12), std::pair<size_t, size_t>(40, 70)}) {
    Rows gallery = RandomRows(rows, dimension, 0.8f);
    std::vector<double> mean(dimension, 0.0);
    for (const auto& row : gallery) {
      const auto u = Direction(row);
      for (size_t d = 0; d < dimension; ++d) mean[d] += u[d] / static_cast<double>(rows);
    }
    std::vector<std::vector<double>> covariance(dimension, std::vector<double>(dimension, 0.0));
    double trace = 0;
    for (const auto& row : gallery) {
      const auto u = Direction(row);
      for (size_t i = 0; i < dimension; ++i) {
        for (size_t j = 0; j < dimension; ++j) {
          covariance[i][j] += (u[i] - mean[i]) * (u[j] - mean[j]) / static_cast<double>(rows);
        }
      }
    }
    for (size_t d = 0; d < dimension; ++d) trace += covariance[d][d];
    for (size_t i = 0; i < dimension; ++i) {
      for (size_t j = 0; j < dimension; ++j) covariance[i][j] *= static_cast<double>(dimension) / trace;
      covariance[i][i] += 0.5;
    }
    // Rows of no direction say nothing.
    gallery.emplace_back();
    gallery.emplace_back(dimension, 0.0f);
    const auto whitening = QueryWhitening::Make(gallery);
    ASSERT_TRUE(whitening.has_value());
    const std::vector<float> query = RandomRows(rows + 1, dimension, 0.3f).back();
    const std::vector<float> found = whitening->Of(query);
    std::vector<double> centred = Direction(query);
    for (size_t d = 0; d < dimension; ++d) centred[d] -= mean[d];
    const std::vector<double> expected = Solve(covariance, centred);
    ASSERT_EQ(found.size(), dimension);
    for (size_t d = 0; d < dimension; ++d) EXPECT_NEAR(found[d], 0.5 * expected[d], 1e-5) << rows << " rows, " << d;
  }
}

TEST(QueryWhitening, IsNotMadeOfTooFewRowsOrOfRowsThatAreAllAlike) {
  EXPECT_FALSE(QueryWhitening::Make({}).has_value());
  EXPECT_FALSE(QueryWhitening::Make(RandomRows(31, 4, 0)).has_value());
  EXPECT_TRUE(QueryWhitening::Make(RandomRows(32, 4, 0)).has_value());
  EXPECT_FALSE(QueryWhitening::Make(Rows(100, {1, 2, 3})).has_value());
  EXPECT_FALSE(QueryWhitening::Make(Rows(100, {0, 0, 0})).has_value());
  const auto whitening = QueryWhitening::Make(RandomRows(100, 4, 0));
  EXPECT_TRUE(whitening->Of(std::vector<float>(4, 0.0f)).empty()) << "a query without a direction";
}

TEST(ConditionedFusion, TrustsTheNewerDistanceAsFarAsItCarriesTheQuery) {
  const std::vector<double> older = {0.8, 1.0, 1.2}, newer = {0.5, 0.6, 0.7};
  const auto at = [&](double error, double weight) {
    return DistanceFusion::MakeConditioned(older, newer, 0.2, error, weight);
  };
  EXPECT_NEAR(at(0.0, 0.5).Of(0.3, 0.4), 0.4, 1e-12) << "the way carries the query to itself";
  // The query itself moves by all of its error, a row at the mean of the older distances not at all.
  EXPECT_NEAR(at(0.3, 0.5).Of(0.2, 0.3), 0.0, 1e-12);
  EXPECT_NEAR(at(0.3, 0.5).Of(1.0, 0.3), 0.3, 1e-12);
  EXPECT_NEAR(at(0.3, 0.2).Of(0.2, 0.3), 0.3 - 0.3 * 0.25, 1e-12);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(at(infinite, 0.5).Of(0.2, 0.6), 0.0, 1e-12) << "no vector of the query: as far as the rows are";
  const DistanceFusion alone = DistanceFusion::MakeConditioned(older, newer, 1.0, 0.3, 0.5);
  EXPECT_NEAR(alone.Of(0.1, 0.4), 0.4, 1e-12) << "an older query that is like nothing says nothing";
  EXPECT_TRUE(std::isfinite(DistanceFusion::MakeConditioned({}, {}, 0.2, infinite, 0.5).Of(1, 2)));
}

}  // namespace
}  // namespace lightcone
