// Verification, identification and data set protocols on hand-made embeddings, against definitions without blocks.
#include "trainer/evaluate_faces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/status.h"
#include "geometry/lorentz.h"
#include "stats/metrics.h"
#include "tests/geometry/rank_distances.h"

namespace lightcone {
namespace {

using ::testing::HasSubstr;

std::vector<float> RandomVectors(int n, int d, double scale, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> z(static_cast<size_t>(n) * d);
  for (float& value : z) value = static_cast<float>(scale * rng.Normal());
  return z;
}

std::vector<int32_t> Cycle(int n, int classes) {
  std::vector<int32_t> labels;
  for (int i = 0; i < n; ++i) labels.push_back(i % classes);
  return labels;
}

double Distance(const RetrievalSpace& space, const LabelledEmbeddings& a, size_t i, const LabelledEmbeddings& b,
                size_t j) {
  const size_t d = static_cast<size_t>(space.dimension);
  const std::vector<double> x(a.z.begin() + i * d, a.z.begin() + (i + 1) * d);
  const std::vector<double> y(b.z.begin() + j * d, b.z.begin() + (j + 1) * d);
  if (space.metric == "lorentz") {
    const auto point = [&](const std::vector<double>& z, double clip) {
      return lorentz::Exp0(lorentz::RescaleClip(z, 1.0, clip), space.curvature);
    };
    return lorentz::Geodesic(point(x, a.clip_radius), point(y, b.clip_radius), space.curvature);
  }
  double dot = 0, xx = 0, yy = 0;
  for (size_t c = 0; c < d; ++c) {
    dot += x[c] * y[c];
    xx += x[c] * x[c];
    yy += y[c] * y[c];
  }
  if (space.metric == "cosine") return 1 - dot / std::sqrt(xx * yy);
  return std::sqrt(std::max(0.0, xx + yy - 2 * dot));
}

struct Counted {
  double far, tar;
};

// Both rates of a threshold, counted pair by pair.
Counted Count(const std::vector<std::pair<float, bool>>& scores, float threshold) {
  double genuine = 0, impostor = 0, accepted = 0, let_in = 0;
  for (const auto& [score, same] : scores) {
    (same ? genuine : impostor) += 1;
    if (score > threshold) (same ? accepted : let_in) += 1;
  }
  return {let_in / impostor, accepted / genuine};
}

TEST(EvaluateFaces, AllPairsAgreeWithCountingForEveryMetric) {
  const int n = 90, d = 6;
  const std::vector<float> a = RandomVectors(n, d, 0.6, 1), b = RandomVectors(n, d, 0.5, 2);
  const std::vector<int32_t> labels = Cycle(n, 9);
  const std::vector<double> rates = {0.001, 0.01, 0.1};
  for (const char* metric : {"lorentz", "cosine", "euclidean"}) {
    const RetrievalSpace space{metric, 0.7, d};
    const LabelledEmbeddings q{a, labels, 1.2}, g{b, labels, 1.0};
    for (const bool same_items : {true, false}) {
      std::vector<std::pair<float, bool>> scores;
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          if (same_items && i == j) continue;
          scores.emplace_back(static_cast<float>(-Distance(space, q, i, g, j)), labels[i] == labels[j]);
        }
      }
      const auto figures = EvaluateAllPairs(space, q, g, same_items, rates);
      ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
      EXPECT_EQ(figures->genuine + figures->impostor, static_cast<int64_t>(scores.size()));
      for (const VerificationPoint& point : figures->points) {
        const Counted counted = Count(scores, point.threshold);
        EXPECT_NEAR(point.far, counted.far, 1e-12) << metric;
        EXPECT_NEAR(point.tar, counted.tar, 1e-12) << metric;
        EXPECT_LE(point.far, point.far_wanted);
        EXPECT_GT(point.far, point.far_wanted - 2.0 / static_cast<double>(figures->impostor));
      }
    }
  }
}

TEST(EvaluateFaces, AListOfPairsGivesTheSameAsAllPairs) {
  const int n = 120, d = 4;
  const std::vector<float> a = RandomVectors(n, d, 0.6, 3), b = RandomVectors(n, d, 0.6, 4);
  const std::vector<int32_t> labels = Cycle(n, 8);
  const RetrievalSpace space{"lorentz", 1.0, d};
  const LabelledEmbeddings q{a, labels, 1.2}, g{b, labels, 1.0};
  std::vector<TemplatePair> pairs;  // more than one block of 8,192
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) pairs.push_back({i, j, labels[i] == labels[j]});
  }
  const std::vector<double> rates = {0, 0.01, 0.2};
  const auto listed = EvaluatePairs(space, q, g, pairs, rates), all = EvaluateAllPairs(space, q, g, false, rates);
  ASSERT_TRUE(listed.ok()) << MessageOf(listed.status());
  for (size_t f = 0; f < rates.size(); ++f) {
    EXPECT_NEAR(listed->points[f].threshold, all->points[f].threshold, 1e-6);
    EXPECT_NEAR(listed->points[f].tar, all->points[f].tar, 2e-3);  // sums of another order may turn ties
  }
  pairs.push_back({0, n, false});
  EXPECT_THAT(MessageOf(EvaluatePairs(space, q, g, pairs, rates).status()),
              HasSubstr("field 'pairs[14400]' is 120; allowed: 0 .. 119"));
}

TEST(EvaluateFaces, IdentificationAgreesWithCounting) {
  const int probes = 300, enrolled = 20, d = 5;  // more probes than a block has rows
  const std::vector<float> a = RandomVectors(probes, d, 0.6, 5), b = RandomVectors(enrolled, d, 0.6, 6);
  const std::vector<int32_t> subjects = Cycle(probes, 30), gallery_subjects = Cycle(enrolled, enrolled);
  const RetrievalSpace space{"lorentz", 1.0, d};
  const LabelledEmbeddings p{a, subjects, 1.2}, g{b, gallery_subjects, 1.0};
  const auto figures = EvaluateIdentification(space, p, g, std::vector<double>{0.1, 0.5}, Impostors::kNonMatedProbes);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_EQ(figures->mated, 200);
  EXPECT_EQ(figures->non_mated, 100);
  for (const IdentificationPoint& point : figures->points) {
    double found = 0, alarms = 0;
    for (size_t i = 0; i < probes; ++i) {
      size_t nearest = 0;
      double best = Distance(space, p, i, g, 0);
      for (size_t j = 1; j < enrolled; ++j) {
        const double distance = Distance(space, p, i, g, j);
        if (distance < best) {
          best = distance;
          nearest = j;
        }
      }
      if (static_cast<float>(-best) <= point.threshold) continue;
      if (subjects[i] >= enrolled) {
        ++alarms;
      } else if (gallery_subjects[nearest] == subjects[i]) {
        ++found;
      }
    }
    EXPECT_DOUBLE_EQ(point.fpir, alarms / 100);
    EXPECT_DOUBLE_EQ(point.tpir, found / 200);
    EXPECT_EQ(point.fpir, point.fpir_wanted);  // no ties among random vectors
  }
}

TEST(EvaluateTestSet, FollowsTheProtocolsQueriesGalleryAndCameras) {
  Dataset dataset;
  dataset.class_names = {"a", "b"};
  dataset.test.labels = {0, 0, 1, 0};
  // One-dimensional places: gallery rows 0 (the query's camera, nearest), 1 and 2; query row 3.
  const std::vector<float> z = {1.0f, 3.0f, 2.0f, 1.1f};
  const RetrievalSpace space{"euclidean", 1.0, 1};
  const TestEmbeddings model{z, 1.0};
  const auto all = EvaluateTestSet(space, dataset, model, model);
  ASSERT_TRUE(all.ok()) << MessageOf(all.status());
  EXPECT_EQ(all->queries, 3);  // class b has one image
  dataset.protocol = TestProtocol{{3}, {0, 1, 2}, {}};
  EXPECT_EQ(EvaluateTestSet(space, dataset, model, model)->cmc1, 1);
  dataset.protocol->cameras = {7, 8, 8, 7};
  const auto other_cameras = EvaluateTestSet(space, dataset, model, model);
  EXPECT_EQ(other_cameras->queries, 1);
  EXPECT_EQ(other_cameras->cmc1, 0);  // row 0 is left out; row 2, of class b, is nearer than row 1
  EXPECT_EQ(other_cameras->map, 0.5);
  dataset.protocol->cameras = {8, 7, 8, 7};
  EXPECT_EQ(EvaluateTestSet(space, dataset, model, model)->cmc1, 1);
}

TEST(EvaluateRetrieval, CamerasThatDoNotFitAreNamed) {
  const std::vector<float> z = {1, 2};
  const std::vector<int32_t> labels = {0, 0}, one = {1};
  const LabelledEmbeddings side{z, labels, 1.0};
  RankingRules rules;
  rules.query_cameras = one;
  const auto figures = EvaluateRetrieval({"euclidean", 1.0, 1}, side, side, rules);
  EXPECT_THAT(MessageOf(figures.status()), HasSubstr("field 'query_cameras' is 1 numbers; allowed: 2, one an image"));
}

TEST(EvaluateRetrieval, AThousandQueriesInBlocksAgreeWithTheWholeMatrix) {
  const int n = 1000, d = 3;
  std::vector<float> z = RandomVectors(n, d, 1, 8);
  for (float& value : z) value = std::round(4 * value) / 4;  // many equal distances: the index decides
  const std::vector<int32_t> labels = Cycle(n, 40);
  const LabelledEmbeddings side{z, labels, 1.0};
  const RetrievalSpace space{"euclidean", 1.0, d};
  std::vector<double> distances;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t c = 0; c < d; ++c) sum += std::pow(double{z[i * d + c]} - double{z[j * d + c]}, 2);
      distances.push_back(sum);  // exact, as all values are quarters
    }
  }
  const std::vector<int64_t> wide(labels.begin(), labels.end());
  const RankingMetrics expected = *RankDistances(distances, wide, wide, true, {1, 5});
  const auto figures = EvaluateRetrieval(space, side, side, true);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_DOUBLE_EQ(figures->cmc1, expected.cmc[0]);
  EXPECT_DOUBLE_EQ(figures->map, expected.map);
}

}  // namespace
}  // namespace lightcone
