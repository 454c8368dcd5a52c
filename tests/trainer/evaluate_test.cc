// Retrieval and uncertainty figures on hand-made embeddings.
#include "trainer/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "base/status.h"
#include "geometry/lorentz.h"
#include "stats/metrics.h"
#include "tests/geometry/rank_distances.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

std::vector<float> RandomVectors(int n, int d, double scale, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> z(static_cast<size_t>(n) * d);
  for (float& value : z) value = static_cast<float>(scale * rng.Normal());
  return z;
}

TEST(EvaluateRetrieval, FindsTheOwnClassWhenClassesAreApartAndSkipsLonelyOnes) {
  const RetrievalSpace space{"lorentz", 1.0, 2};
  const std::vector<float> z = {0.5f, 0, 0.6f, 0, 0, 0.5f, 0, 0.6f, -0.9f, 0};
  const std::vector<int32_t> labels = {0, 0, 1, 1, 2};
  const LabelledEmbeddings side{z, labels, 1.0};
  const absl::StatusOr<RetrievalFigures> figures = EvaluateRetrieval(space, side, side, true);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_DOUBLE_EQ(figures->cmc1, 1);
  EXPECT_DOUBLE_EQ(figures->map, 1);
  EXPECT_EQ(figures->queries, 4);
  EXPECT_EQ(figures->queries_skipped, 1);
}

// The definition once more, from the float64 reference of geometry/.
RankingMetrics Reference(const RetrievalSpace& space, const LabelledEmbeddings& q, const LabelledEmbeddings& g,
                         bool same) {
  const size_t d = static_cast<size_t>(space.dimension);
  const auto point = [&](const LabelledEmbeddings& side, size_t i) {
    const std::vector<double> z(side.z.begin() + i * d, side.z.begin() + (i + 1) * d);
    return lorentz::Exp0(lorentz::RescaleClip(z, 1.0, side.clip_radius), space.curvature);
  };
  std::vector<double> distances;
  for (size_t i = 0; i < q.labels.size(); ++i) {
    for (size_t j = 0; j < g.labels.size(); ++j) {
      distances.push_back(lorentz::Geodesic(point(q, i), point(g, j), space.curvature));
    }
  }
  return *RankDistances(distances, std::vector<int64_t>(q.labels.begin(), q.labels.end()),
                        std::vector<int64_t>(g.labels.begin(), g.labels.end()), same, {1, 5});
}

TEST(EvaluateRetrieval, AgreesWithTheReferenceAcrossClipRadiiAndCurvatures) {
  for (double curvature : {0.1, 1.0, 1.5}) {
    const int n = 60, d = 5;
    const RetrievalSpace space{"lorentz", curvature, d};
    const std::vector<float> a = RandomVectors(n, d, 0.6, 1), b = RandomVectors(n, d, 0.5, 2);
    std::vector<int32_t> labels;
    for (int i = 0; i < n; ++i) labels.push_back(i % 7);
    const LabelledEmbeddings q{a, labels, 1.2}, g{b, labels, 1.0};
    for (bool same : {true, false}) {
      const RetrievalFigures figures = *EvaluateRetrieval(space, q, g, same);
      const RankingMetrics expected = Reference(space, q, g, same);
      EXPECT_DOUBLE_EQ(figures.cmc1, expected.cmc[0]);
      EXPECT_DOUBLE_EQ(figures.cmc5, expected.cmc[1]);
      EXPECT_NEAR(figures.map, expected.map, 1e-9);
    }
  }
}

TEST(EvaluateRetrieval, OtherMetricsOrderAsTheyShould) {
  const std::vector<float> queries = {1, 0}, gallery = {10, 1, 1, 0.2f, 0.5f, 5};
  const std::vector<int32_t> query_label = {7};
  const auto first = [&](const std::string& metric, int wanted) {
    std::vector<int32_t> labels(3, 0);
    labels[static_cast<size_t>(wanted)] = 7;
    return EvaluateRetrieval({metric, 1.0, 2}, {queries, query_label, 1.0}, {gallery, labels, 1.0}, false)->cmc1;
  };
  EXPECT_EQ(first("cosine", 0), 1);
  EXPECT_EQ(first("inner_product", 0), 1);
  EXPECT_EQ(first("euclidean", 1), 1);
  EXPECT_EQ(first("euclidean", 0), 0);
}

TEST(EvaluateRetrieval, BadArgumentsNameTheField) {
  const std::vector<float> z = {0.5f, 0, 0.6f, 0};
  const std::vector<int32_t> two = {0, 0}, one = {0}, none;
  const RetrievalSpace space{"lorentz", 1.0, 2};
  const LabelledEmbeddings good{z, two, 1.0};
  const auto message = [&](const RetrievalSpace& s, const LabelledEmbeddings& q, const LabelledEmbeddings& g) {
    const absl::Status status = EvaluateRetrieval(s, q, g, true).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  EXPECT_THAT(message({"manhattan", 1.0, 2}, good, good), HasSubstr("field 'space.metric' is manhattan"));
  EXPECT_THAT(message({"lorentz", 0.0, 2}, good, good), HasSubstr("field 'space.curvature' is 0"));
  EXPECT_THAT(message({"lorentz", 1.0, 3}, good, good), HasSubstr("field 'queries.z' is 4 numbers; allowed: 6"));
  EXPECT_THAT(message(space, {{}, none, 1.0}, good), HasSubstr("field 'queries' is 0 items"));
  EXPECT_THAT(message(space, {std::span(z).first(2), one, 1.0}, good),
              HasSubstr("field 'queries' is 1 items; allowed: 2"));
  const std::vector<float> bad = {0.5f, std::numeric_limits<float>::infinity(), 0, 0};
  EXPECT_THAT(message(space, good, {bad, two, 1.0}), HasSubstr("field 'gallery.z[1]' is inf"));
  EXPECT_THAT(message(space, good, {z, two, 0.0}), HasSubstr("field 'gallery.clip_radius' is 0"));
}

// Items of class c lie on axis c; the doubtful ones are short before the clip and lie among another class.
TEST(EvaluateUncertainty, TellsWrongItemsByTheNormBeforeTheClipWhereTheClippedOneCannot) {
  const int d = 4, per_class = 6;
  std::vector<float> queries, gallery;
  std::vector<int32_t> labels;
  for (int c = 0; c < d; ++c) {
    for (int i = 0; i < per_class; ++i) {
      std::vector<float> z(d, 0.0f), misplaced(d, 0.0f);
      z[static_cast<size_t>(c)] = 3.0f + 0.01f * static_cast<float>(i);
      misplaced[static_cast<size_t>((c + 1) % d)] = 1.5f;
      queries.insert(queries.end(), z.begin(), z.end());
      const std::vector<float>& stored = i == 0 ? misplaced : z;
      gallery.insert(gallery.end(), stored.begin(), stored.end());
      labels.push_back(c);
    }
  }
  const RetrievalSpace space{"lorentz", 1.0, d};
  const absl::StatusOr<UncertaintyFigures> figures =
      EvaluateUncertainty(space, {queries, labels, 1.2}, {gallery, labels, 1.0}, true);
  ASSERT_TRUE(figures.ok()) << MessageOf(figures.status());
  EXPECT_EQ(figures->items, 24);
  EXPECT_GE(figures->items_wrong, 1);
  EXPECT_GT(figures->auroc_pre_clip, 0.9);
  EXPECT_NEAR(figures->auroc_clipped, 0.5, 1e-9);
}

TEST(EvaluateUncertainty, NeedsTheLorentzMetric) {
  const std::vector<float> z = {1, 0, 1, 0};
  const std::vector<int32_t> labels = {0, 0};
  EXPECT_THAT(MessageOf(EvaluateUncertainty({"cosine", 1.0, 2}, {z, labels, 1}, {z, labels, 1}, true).status()),
              HasSubstr("field 'space.metric' is cosine; allowed: lorentz"));
}

}  // namespace
}  // namespace lightcone
