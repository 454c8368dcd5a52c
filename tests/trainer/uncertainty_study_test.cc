// Predictors of badly placed items, and backfills that follow them, on a gallery where a sixth of the items is
// scattered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/status.h"
#include "geometry/lorentz.h"
#include "trainer/data/rng.h"
#include "trainer/uncertainty/neighbours.h"
#include "trainer/uncertainty/study.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr int kClasses = 10, kItemsOfAClass = 12, kDimension = 64;

std::vector<float> Around(int axis, double length, double noise, Rng* rng) {
  std::vector<float> z(kDimension);
  for (float& value : z) value = static_cast<float>(noise * rng->Normal());
  if (axis >= 0) z[static_cast<size_t>(axis)] += static_cast<float>(length);
  return z;
}

void Append(const std::vector<float>& z, std::vector<float>* all) { all->insert(all->end(), z.begin(), z.end()); }

// Classes are axes. The new model places every item at its class, the old one all but two of a class, which are short
// and point anywhere.
class ScatteredGallery {
 public:
  ScatteredGallery() {
    Rng rng(5);
    for (int c = 0; c < kClasses; ++c) {
      for (int i = 0; i < kItemsOfAClass; ++i) {
        const bool scattered = i < 2;
        Append(scattered ? Around(-1, 0, 0.1, &rng) : Around(c, 1.6, 0.05, &rng), &old_);
        Append(Around(c, 1.6, 0.05, &rng), &new_);
        Append(Around(c, 1.6, 0.05, &rng), &training_);
        labels_.push_back(c);
        known_.push_back(c < kClasses / 2);
      }
    }
  }

  StudyMaterial Material() const {
    StudyMaterial m;
    m.old.space = {"lorentz", 1.0, kDimension};
    m.old.gallery = {old_, labels_, 1.0};
    m.old.training = {training_, labels_, 1.0};
    m.old.known = known_;
    m.next = {new_, labels_, 1.2};
    return m;
  }

 private:
  std::vector<float> old_, new_, training_;
  std::vector<int32_t> labels_;
  std::vector<uint8_t> known_;
};

TEST(NearestNeighbours, AreThoseOfTheReferenceNearestFirstWithoutTheItemItself) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const size_t n = m.next.labels.size();
  const auto point = [&](size_t i) {
    const auto z = m.old.gallery.z.subspan(i * kDimension, kDimension);
    return lorentz::Exp0(lorentz::RescaleClip(std::vector<double>(z.begin(), z.end()), 1.0, 1.0), 1.0);
  };
  const NeighbourLists lists = *NearestNeighbours(m.old.space, m.old.gallery, m.old.gallery, true, 7);
  ASSERT_EQ(lists.k, 7u);
  for (size_t i = 0; i < n; i += 11) {
    std::vector<double> expected;
    for (size_t j = 0; j < n; ++j) {
      if (j != i) expected.push_back(lorentz::Geodesic(point(i), point(j), 1.0));
    }
    std::sort(expected.begin(), expected.end());
    for (size_t r = 0; r < 7; ++r) {
      EXPECT_NEAR(lists.DistancesOf(i)[r], expected[r], 1e-7);
      const size_t id = static_cast<size_t>(lists.IdsOf(i)[r]);
      EXPECT_NE(id, i);
      EXPECT_NEAR(lorentz::Geodesic(point(i), point(id), 1.0), expected[r], 1e-7);
    }
  }
  EXPECT_EQ(NearestNeighbours(m.old.space, m.old.gallery, m.old.gallery, true, 1000)->k, n - 1) << "all there are";
  EXPECT_EQ(NearestNeighbours(m.old.space, m.old.gallery, m.old.training, false, 1000)->k, n);
}

TEST(PredictorsOf, CompareTheListsOfNeighboursAsTheirNamesSay) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const NeighbourLists lists = *NearestNeighbours(m.old.space, m.old.gallery, m.old.gallery, true, 16);
  const size_t n = m.old.known.size();
  std::vector<std::set<int32_t>> of(n);
  for (size_t i = 0; i < n; ++i) of[i] = {lists.IdsOf(i).begin(), lists.IdsOf(i).end()};
  std::vector<double> listed(n, 0.0), returned(n, 0.0), shared(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (!of[j].contains(static_cast<int32_t>(i))) continue;
      listed[i] += 1;
      if (of[i].contains(static_cast<int32_t>(j))) returned[i] += 1;
    }
    for (const int32_t j : of[i]) {
      for (const int32_t k : of[i]) shared[i] += of[static_cast<size_t>(j)].contains(k);
    }
  }
  const std::vector<Predictor> predictors = *PredictorsOf(m.old);
  const auto negated = [&](const char* name) {
    for (const Predictor& p : predictors) {
      if (p.name != name) continue;
      std::vector<double> scores;
      for (const double score : p.scores) scores.push_back(-score);
      return scores;
    }
    return std::vector<double>();
  };
  EXPECT_EQ(negated("in few lists of 16"), listed);
  EXPECT_EQ(negated("few of its 16 nearest list it"), returned);
  EXPECT_EQ(negated("its list of 16 shares little with theirs"), shared);
}

TEST(StudyUncertainty, FindsTheScatteredItemsByWhateverTellsThem) {
  const ScatteredGallery gallery;
  const UncertaintyStudy study = *StudyUncertainty(gallery.Material(), 1);
  EXPECT_EQ(study.items, kClasses * kItemsOfAClass);
  EXPECT_GE(study.items_wrong, kClasses);
  EXPECT_LE(study.items_wrong, 2 * kClasses);
  std::map<std::string, double> auroc;
  for (const PredictorFigures& p : study.predictors) auroc[p.name] = p.auroc;
  EXPECT_EQ(auroc.size(), study.predictors.size()) << "names are unique";
  for (const char* name :
       {"norm before the clip", "norm after the clip", "distance to the nearest item",
        "entropy of the 64 nearest, tau = .2 d1", "entropy of the 512 nearest, tau = .15 d1",
        "distance to the nearest training image", "entropy over class means, tau = .1",
        "cosine to the nearest class mean", "margin between two class means", "of its 10 nearest few are of its class",
        "entropy of the 64 nearest, tau = .2 d1; and norm before the clip (sum of ranks)"}) {
    ASSERT_TRUE(auroc.contains(name)) << name;
    EXPECT_GT(auroc[name], 0.85) << name;
  }
  EXPECT_NEAR(auroc["class unknown to the old model"], 0.5, 0.2) << "it has nothing to do with them here";
}

TEST(StudyUncertainty, CurvesRunFromTheOldGalleryToTheNewOne) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const UncertaintyStudy study = *StudyUncertainty(m, 1);
  const RetrievalFigures before = *EvaluateRetrieval(m.old.space, m.next, m.old.gallery, true);
  const RetrievalFigures after = *EvaluateRetrieval(m.old.space, m.next, m.next, true);
  for (const BackfillCurve* curve : {&study.random, &study.oracle}) {
    ASSERT_EQ(curve->map.size(), static_cast<size_t>(kBackfillSteps + 1));
    EXPECT_NEAR(curve->map.front(), before.map, 1e-9);
    EXPECT_NEAR(curve->map.back(), after.map, 1e-9);
    EXPECT_NEAR(curve->cmc1.front(), before.cmc1, 1e-9);
    EXPECT_NEAR(curve->cmc1.back(), after.cmc1, 1e-9);
  }
  EXPECT_GT(study.oracle.map[2], study.random.map[2] + 0.01) << "two tenths hold all scattered items";
  std::map<std::string, double> area;
  for (const PredictorFigures& p : study.predictors) area[p.name] = p.area_map;
  EXPECT_NEAR(area["norm before the clip"], 1, 0.15) << "here it is as good as the oracle";
  EXPECT_LT(area["class unknown to the old model"], 0.5);
}

TEST(StudyUncertainty, GivesTheSameFiguresForTheSameSeed) {
  const ScatteredGallery gallery;
  const UncertaintyStudy a = *StudyUncertainty(gallery.Material(), 1), b = *StudyUncertainty(gallery.Material(), 1);
  EXPECT_EQ(a.random.map, b.random.map);
  ASSERT_EQ(a.predictors.size(), b.predictors.size());
  for (size_t i = 0; i < a.predictors.size(); ++i) EXPECT_EQ(a.predictors[i].area_map, b.predictors[i].area_map);
  EXPECT_NE(a.random.map, StudyUncertainty(gallery.Material(), 2)->random.map) << "other random orders";
}

TEST(StudyUncertainty, NamesWhatDoesNotFit) {
  const ScatteredGallery gallery;
  const auto error = [](const StudyMaterial& m) {
    const absl::Status status = StudyUncertainty(m, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  StudyMaterial m = gallery.Material();
  m.old.space.metric = "cosine";
  EXPECT_THAT(error(m), HasSubstr("field 'space.metric' is cosine; allowed: lorentz"));
  m = gallery.Material();
  m.old.known = m.old.known.first(3);
  EXPECT_THAT(error(m), HasSubstr("field 'known' is 3 items; allowed: 120"));
  m = gallery.Material();
  std::vector<int32_t> labels(m.old.training.labels.begin(), m.old.training.labels.end());
  labels[4] = -1;
  m.old.training.labels = labels;
  EXPECT_THAT(error(m), HasSubstr("field 'training.labels' is -1; allowed: 0 or above"));
  m = gallery.Material();
  m.next.z = m.next.z.first(kDimension);
  EXPECT_THAT(error(m), HasSubstr("field 'gallery.z' is 64 numbers; allowed: 7680 (120 labels x 64)"));
}

}  // namespace
}  // namespace lightcone
