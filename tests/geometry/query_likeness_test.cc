#include "stats/query_likeness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
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

double Product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

// The posterior covariance of two vectors given the rows at `known` places, as the header writes it.
class NaiveKernel {
 public:
  NaiveKernel(const Rows& rows, const std::vector<size_t>& known) : mean_(rows[0].size(), 0.0) {
    for (const auto& row : rows) {
      const auto u = Direction(row);
      for (size_t d = 0; d < mean_.size(); ++d) mean_[d] += u[d] / static_cast<double>(rows.size());
    }
    for (const auto& row : rows) {
      const auto v = Centred(Direction(row));
      square_ += Product(v, v) / static_cast<double>(rows.size());
    }
    for (const size_t i : known) known_.push_back(Direction(rows[i]));
  }

  double Prior(const std::vector<double>& u, const std::vector<double>& v) const {
    double square = 0;
    for (size_t d = 0; d < u.size(); ++d) square += (u[d] - v[d]) * (u[d] - v[d]);
    return std::exp(-std::sqrt(square / square_) / 2) + Product(Centred(u), Centred(v)) / (4 * square_);
  }

  double Posterior(const std::vector<float>& x, const std::vector<float>& q) const {
    const auto u = Direction(x), v = Direction(q);
    std::vector<std::vector<double>> gram(known_.size(), std::vector<double>(known_.size()));
    std::vector<double> of_u, of_v;
    for (size_t i = 0; i < known_.size(); ++i) {
      for (size_t j = 0; j < known_.size(); ++j) gram[i][j] = Prior(known_[i], known_[j]) + (i == j ? 0.05 : 0);
      of_u.push_back(Prior(known_[i], u));
      of_v.push_back(Prior(known_[i], v));
    }
    return Prior(u, v) - Product(of_u, Solve(gram, of_v));
  }

 private:
  std::vector<double> Centred(std::vector<double> u) const {
    for (size_t d = 0; d < u.size(); ++d) u[d] -= mean_[d];
    return u;
  }

  std::vector<double> mean_;
  double square_ = 0;
  std::vector<std::vector<double>> known_;
};

double DistanceTo(const LikenessKernel& kernel, const QueryLikeness& likeness, const std::vector<float>& row,
                  double cosine_distance) {
  std::vector<float> features(kernel.features());
  kernel.FeaturesOf(row, features);
  return likeness.Distance(cosine_distance, features);
}

TEST(QueryLikeness, IsThePosteriorCovarianceOfAGaussianProcess) {
  for (const auto& [rows, dimension] : {std::pair<size_t, size_t>(200, 12), std::pair<size_t, size_t>(40, 70)}) {
    Rows gallery = RandomRows(rows, dimension, 0.8f);
    std::vector<size_t> known;
    const size_t used = std::min(rows, LikenessKernel::kRowsMax);
    for (size_t i = 0; i < used; ++i) known.push_back(i * rows / used);
    const NaiveKernel naive(gallery, known);
    // Rows of no direction say nothing.
    gallery.emplace_back();
    gallery.emplace_back(dimension, 0.0f);
    const auto kernel = LikenessKernel::Make(gallery);
    ASSERT_TRUE(kernel.has_value());
    EXPECT_EQ(kernel->features(), used + 1);
    const Rows fresh = RandomRows(rows + 5, dimension, 0.3f);
    const std::vector<float>& query = fresh[rows];
    const QueryLikeness likeness = kernel->Of(query);
    const double variance = naive.Posterior(query, query) + 0.05;
    for (const std::vector<float>& row : {fresh[rows + 1], fresh[rows + 2], gallery[0], gallery[3], query}) {
      const double cosine = Product(Direction(row), Direction(query));
      const double expected = 1 - naive.Posterior(row, query) / variance;
      EXPECT_NEAR(DistanceTo(*kernel, likeness, row, 1 - cosine), expected, 2e-3) << rows << " rows of " << dimension;
      std::vector<float> longer = row;
      for (float& x : longer) x *= 3;
      EXPECT_NEAR(DistanceTo(*kernel, likeness, longer, 1 - cosine), expected, 2e-3) << "lengths say nothing";
    }
    EXPECT_LT(DistanceTo(*kernel, likeness, query, 0), 0.2);
  }
}

TEST(QueryLikeness, HasNoKernelOfTooFewRowsOrOfRowsThatAreAllAlike) {
  EXPECT_FALSE(LikenessKernel::Make({}).has_value());
  EXPECT_FALSE(LikenessKernel::Make(RandomRows(31, 4, 0)).has_value());
  EXPECT_TRUE(LikenessKernel::Make(RandomRows(32, 4, 0)).has_value());
  EXPECT_FALSE(LikenessKernel::Make(Rows(100, {1, 2, 3})).has_value());
  EXPECT_FALSE(LikenessKernel::Make(Rows(100, {0, 0, 0})).has_value());
}

TEST(QueryLikeness, IsFiniteOrHasNoKernelHoweverNarrowTheGalleryIs) {
  for (const size_t dimension : {16, 256}) {
    for (const float width : {1e-1f, 3e-2f, 1e-2f, 3e-3f, 1e-3f, 3e-4f, 1e-5f}) {
      Rows gallery = RandomRows(200, dimension, 0);
      for (auto& row : gallery) {
        for (float& x : row) x = 1 + width * x;
      }
      const auto kernel = LikenessKernel::Make(gallery);
      if (!kernel) continue;
      const QueryLikeness likeness = kernel->Of(gallery[5]);
      for (const size_t i : {5, 6, 150}) {
        const double cosine = Product(Direction(gallery[i]), Direction(gallery[5]));
        const double distance = DistanceTo(*kernel, likeness, gallery[i], 1 - cosine);
        EXPECT_TRUE(std::isfinite(distance) && std::abs(distance) < 10) << distance << " at width " << width;
      }
    }
  }
}

TEST(QueryLikeness, IsFiniteForRowsWithoutADirectionAndForKnownOnes) {
  const Rows gallery = RandomRows(64, 8, 0.2f);
  const auto kernel = LikenessKernel::Make(gallery);
  const QueryLikeness of_known = kernel->Of(gallery[7]);
  for (const std::vector<float>& row : {gallery[7], gallery[8], std::vector<float>(8, 0.0f)}) {
    EXPECT_TRUE(std::isfinite(DistanceTo(*kernel, of_known, row, 0.7)));
  }
  EXPECT_TRUE(std::isfinite(DistanceTo(*kernel, kernel->Of(std::vector<float>(8, 0.0f)), gallery[1], 1)));
}

TEST(ConditionedFusion, TrustsTheNewerDistanceAsFarAsItCarriesTheQuery) {
  const std::vector<double> newer = {0.5, 0.6, 0.7};
  const auto at = [&](double error, double weight) { return DistanceFusion::MakeConditioned(newer, error, weight); };
  EXPECT_NEAR(at(0.0, 0.5).Of(0.3, 0.4), 0.4, 1e-12) << "the way carries the query to itself";
  EXPECT_NEAR(at(0.3, 0.5).Of(0.0, 0.3), 0.0, 1e-12) << "the query itself moves by all of its error";
  EXPECT_NEAR(at(0.3, 0.5).Of(1.0, 0.3), 0.3, 1e-12) << "a row that is not like it does not move";
  EXPECT_NEAR(at(0.3, 0.2).Of(0.0, 0.3), 0.3 - 0.3 * 0.25, 1e-12);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(at(infinite, 0.5).Of(0.0, 0.6), 0.0, 1e-12) << "no vector of the query: as far as the rows are";
  EXPECT_TRUE(std::isfinite(DistanceFusion::MakeConditioned({}, infinite, 0.5).Of(1, 2)));
}

TEST(DistanceFusion, IsPutOnTheScaleOfOtherDistancesInTheSameOrder) {
  std::vector<double> older, newer, own;
  for (int i = 0; i < 40; ++i) {
    older.push_back(0.4 + 0.02 * (i * 7 % 40));
    newer.push_back(0.5 + 0.01 * (i * 11 % 40));
    own.push_back(i % 2 == 0 ? 2 : 6);
  }
  const DistanceFusion fusion = DistanceFusion::MakeConditioned(newer, 0.3, 0.5);
  const DistanceFusion scaled = fusion.OnScaleOf(own, older, newer);
  std::vector<double> distances;
  for (size_t i = 0; i < older.size(); ++i) distances.push_back(scaled.Of(older[i], newer[i]));
  // Of 40 rows the nearest 32 tell the scale, of more the nearest fifth.
  const auto nearest = [](std::vector<double> all, size_t count) {
    std::sort(all.begin(), all.end());
    return DistanceScale::Of(std::span(all).first(count));
  };
  EXPECT_NEAR(nearest(distances, 32).mean, (20 * 2 + 12 * 6) / 32.0, 1e-12);
  EXPECT_NEAR(nearest(distances, 32).deviation, nearest(own, 32).deviation, 1e-12);
  std::vector<double> many, many_own;
  for (int i = 0; i < 400; ++i) {
    many.push_back(0.01 * (i * 7 % 400));
    many_own.push_back(5 + 0.001 * i * i);
  }
  const DistanceFusion tail = DistanceFusion().OnScaleOf(many_own, many, many);
  std::vector<double> mapped;
  for (const double d : many) mapped.push_back(tail.Of(d, d));
  EXPECT_NEAR(nearest(mapped, 80).mean, nearest(many_own, 80).mean, 1e-9);
  EXPECT_NEAR(nearest(mapped, 80).deviation, nearest(many_own, 80).deviation, 1e-9);
  for (size_t i = 1; i < older.size(); ++i) {
    EXPECT_EQ(distances[i] < distances[0], fusion.Of(older[i], newer[i]) < fusion.Of(older[0], newer[0]));
  }
  const double infinite = std::numeric_limits<double>::infinity();
  std::vector<double> lost = newer;
  for (size_t i = 20; i < lost.size(); ++i) lost[i] = infinite;
  const std::vector<double> alike(40, 3.0), few(own.begin(), own.begin() + 31);
  EXPECT_EQ(fusion.OnScaleOf(alike, older, newer).newer_slope, 1) << "items that are all alike have no scale";
  EXPECT_EQ(fusion.OnScaleOf(few, older, newer).newer_slope, 1);
  EXPECT_EQ(fusion.OnScaleOf(own, older, lost).newer_slope, 1) << "rows that the way makes no vector of do not count";
}

}  // namespace
}  // namespace lightcone
