// Predictors of badly placed items, and backfills that follow them, on a gallery where a sixth of the items is
// scattered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "base/status.h"
#include "geometry/lorentz.h"
#include "geometry/metric.h"
#include "research/uncertainty/move_gains.h"
#include "research/uncertainty/study.h"
#include "trainer/uncertainty/class_evidence.h"
#include "trainer/uncertainty/failure_head.h"
#include "trainer/uncertainty/neighbours.h"

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
  explicit ScatteredGallery(uint64_t seed = 5) {
    Rng rng(seed);
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
    for (int copy = 0; copy < kImageCopies; ++copy) {
      for (size_t i = 0; i < labels_.size(); ++i) {
        std::vector<float> z = Around(-1, 0, 0.1, &rng);  // of a scattered item: anywhere; of the others: where it is
        const bool scattered = i % kItemsOfAClass < 2;
        for (size_t j = 0; j < z.size() && !scattered; ++j) z[j] = 0.1f * z[j] + old_[i * kDimension + j];
        Append(z, &copies_);
      }
    }
    for (size_t i = 0; i < labels_.size(); ++i) {
      for (size_t c = 0; c < kClasses; ++c) logits_.push_back(10 * old_[i * kDimension + c]);
    }
  }

  // Training images of both models: another gallery, as this one.
  StudyMaterial Material() const {
    static const auto* const kPairs = new ScatteredGallery(6);
    StudyMaterial m;
    m.old.pairs_old = {kPairs->old_, kPairs->labels_, 1.0};
    m.old.pairs_next = {kPairs->new_, kPairs->labels_, 1.2};
    m.old.space = {"lorentz", 1.0, kDimension};
    m.old.gallery = {old_, labels_, 1.0};
    m.old.training = {training_, labels_, 1.0};
    m.old.known = known_;
    m.old.copies = copies_;
    m.old.head_logits = logits_;
    m.next = {new_, labels_, 1.2};
    return m;
  }

 private:
  std::vector<float> old_, new_, training_, copies_, logits_;
  std::vector<int32_t> labels_;
  std::vector<uint8_t> known_;
};

size_t IndexOf(std::string_view name) {
  for (size_t i = 0; i < PredictorList().size(); ++i) {
    if (PredictorList()[i].name == name) return i;
  }
  ADD_FAILURE() << "no predictor '" << name << "'";
  return 0;
}

TEST(NearestNeighbours, AreThoseOfTheReferenceNearestFirstWithoutTheItemItself) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const size_t n = m.next.labels.size();
  const auto point = [&](size_t i) {
    const auto z = m.old.gallery.z.subspan(i * kDimension, kDimension);
    return lorentz::Exp0(lorentz::RescaleClip(std::vector<double>(z.begin(), z.end()), 1.0, 1.0), 1.0);
  };
  const NeighbourLists lists =
      *NearestNeighbours(m.old.space, {"gallery", m.old.gallery}, {"gallery", m.old.gallery}, true, 7);
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
  EXPECT_EQ(NearestNeighbours(m.old.space, {"gallery", m.old.gallery}, {"gallery", m.old.gallery}, true, 1000)->k,
            n - 1)
      << "all there are";
  EXPECT_EQ(NearestNeighbours(m.old.space, {"gallery", m.old.gallery}, {"training", m.old.training}, false, 1000)->k,
            n);
}

TEST(PredictorScores, CompareTheListsOfNeighboursAsTheirNamesSay) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const NeighbourLists lists =
      *NearestNeighbours(m.old.space, {"gallery", m.old.gallery}, {"gallery", m.old.gallery}, true, 16);
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
  const std::vector<std::vector<double>> all = *PredictorScores(m.old);
  const auto negated = [&](const char* name) {
    std::vector<double> scores;
    for (const double score : all[IndexOf(name)]) scores.push_back(-score);
    return scores;
  };
  EXPECT_EQ(negated("in few lists of 16"), listed);
  EXPECT_EQ(negated("few of its 16 nearest list it"), returned);
  EXPECT_EQ(negated("its list of 16 shares little with theirs"), shared);
}

TEST(PredictorScores, DoNotDependOnTheOrderOfTheItems) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const size_t n = m.old.known.size();
  std::vector<float> z, copies, logits;
  std::vector<int32_t> labels;
  std::vector<uint8_t> known;
  for (size_t i = kImageCopies * n; i-- > 0;) {  // the last copy's block comes first, which says the same
    const auto row = m.old.copies.subspan(i * kDimension, kDimension);
    copies.insert(copies.end(), row.begin(), row.end());
  }
  for (size_t i = n; i-- > 0;) {
    const auto said = m.old.head_logits.subspan(i * kClasses, kClasses);
    logits.insert(logits.end(), said.begin(), said.end());
    const auto row = m.old.gallery.z.subspan(i * kDimension, kDimension);
    z.insert(z.end(), row.begin(), row.end());
    labels.push_back(m.old.gallery.labels[i]);
    known.push_back(m.old.known[i]);
  }
  PredictorMaterial turned = m.old;
  turned.gallery = {z, labels, 1.0};
  turned.known = known;
  turned.copies = copies;
  turned.head_logits = logits;
  const std::vector<std::vector<double>> there = *PredictorScores(m.old);
  std::vector<std::vector<double>> back = *PredictorScores(turned);
  for (size_t p = 0; p < there.size(); ++p) {
    std::reverse(back[p].begin(), back[p].end());
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(there[p][i], back[p][i], 1e-9) << PredictorList()[p].name << " " << i;
  }
}

// Average precision of a query, recomputed from scratch.
double Precision(const std::vector<double>& distances, const std::vector<uint8_t>& relevant, size_t own) {
  std::vector<size_t> order;
  for (size_t j = 0; j < distances.size(); ++j) {
    if (j != own) order.push_back(j);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distances[a] < distances[b]; });
  double sum = 0, hits = 0;
  for (size_t p = 0; p < order.size(); ++p) {
    if (relevant[order[p]] != 0) sum += ++hits / static_cast<double>(p + 1);
  }
  return hits > 0 ? sum / hits : 0;
}

TEST(MoveGains, AreWhatEachMoveAloneDoesToTheAveragePrecision) {
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    constexpr size_t kItems = 23;
    std::vector<double> before, after;
    std::vector<uint8_t> relevant;
    for (size_t j = 0; j < kItems; ++j) {
      before.push_back(rng.Uniform(0, 1));
      after.push_back(j % 5 == 0 ? before.back() : rng.Uniform(0, 1));
      relevant.push_back(rng.Uniform(0, 1) < 0.3);
    }
    const size_t own = static_cast<size_t>(round);
    const std::vector<double> gains = MoveGains(before, after, relevant, own);
    ASSERT_EQ(gains.size(), kItems);
    for (size_t j = 0; j < kItems; ++j) {
      std::vector<double> moved = before;
      moved[j] = after[j];
      EXPECT_NEAR(gains[j], Precision(moved, relevant, own) - Precision(before, relevant, own), 1e-12) << j;
    }
  }
  EXPECT_EQ(MoveGains(std::vector{0.0, 1.0, 1.0}, std::vector{0.0, 1.0, 1.0}, std::vector<uint8_t>{0, 0, 1}, 0),
            (std::vector{0.0, 0.0, 0.0}))
      << "items that stay among others at their distance gain nothing";
  EXPECT_EQ(MoveGains(std::vector{1.0, 2.0}, std::vector{2.0, 1.0}, std::vector<uint8_t>{1, 0}, 0),
            (std::vector{0.0, 0.0}))
      << "only the query's own image is of its class";
}

TEST(FailureHead, LearnsFromTrainingImagesWhichItemsTheNewModelWillNotFind) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const ClassMeans means = ClassMeansOf(m.old.space, m.old.training);
  const FailureHead head = (*FitFailureHead(m.old.space, means, m.old.pairs_old, m.old.pairs_next, 1000))->head;
  const Neighbourhood near =
      *NeighbourhoodOf(m.old.space, {"gallery", m.old.gallery}, {"gallery", m.old.gallery}, true, kHeadNeighbours);
  const std::vector<HeadFeatures> features =
      HeadFeaturesOf(m.old.space, m.old.gallery, near, EvidenceOf(m.old.space, m.old.gallery, means));
  const Failures failures = *FailuresOf(m.old.space, m.next, m.old.gallery);
  int agreed = 0;
  for (size_t i = 0; i < features.size(); ++i) agreed += (head.Score(features[i]) > 0) == (failures.wrong[i] != 0);
  EXPECT_GE(agreed, std::ssize(features) - 3);
  // A sample is even over the classes: half of them, 6 of each, one scattered or so, are enough to learn from.
  EXPECT_TRUE(FitFailureHead(m.old.space, means, m.old.pairs_old, m.old.pairs_next, 60)->has_value());
  EXPECT_FALSE(FitFailureHead(m.old.space, means, m.old.pairs_next, m.old.pairs_next, 1000)->has_value())
      << "every image is found: there is nothing to learn";
  LabelledEmbeddings few = m.old.pairs_next;
  few.labels = few.labels.first(3);
  EXPECT_THAT(MessageOf(FitFailureHead(m.old.space, means, m.old.pairs_old, few, 1000).status()),
              HasSubstr("head.queries"));
}

TEST(StudyUncertainty, FindsTheScatteredItemsByWhateverTellsThem) {
  const ScatteredGallery gallery;
  const UncertaintyStudy study = *StudyUncertainty(gallery.Material(), 1);
  EXPECT_EQ(study.items, kClasses * kItemsOfAClass);
  EXPECT_EQ(study.items_left_out, 0);
  EXPECT_GE(study.items_wrong, kClasses);
  EXPECT_LE(study.items_wrong, 2 * kClasses);
  ASSERT_EQ(study.predictors.size(), PredictorList().size());
  // Here classes are of 12 images, and the scattered ones are near each other: what looks at few neighbours fails.
  for (size_t p = 0; p < study.predictors.size(); ++p) {
    const std::string_view name = PredictorList()[p].name;
    const double auroc = study.predictors[p].auroc.value();
    if (name == "class unknown to the old model") {
      EXPECT_NEAR(auroc, 0.5, 0.2) << "it has nothing to do with them here";
    } else if (name == "few of its 16 nearest list it" || name == "entropy of the 64 nearest, tau = .1 d1") {
      EXPECT_LT(auroc, 0.5);
    } else if (name == "head, learnt from the old model's training images") {
      EXPECT_EQ(auroc, 0.5) << "they are all found: there is nothing to learn";
    } else if (name == "in few lists of 16") {
      EXPECT_NE(auroc, 0.5);
    } else {
      EXPECT_GT(auroc, 0.85) << name;
    }
  }
}

// The gallery with the first `count` items of `order` by the new model, each lifted with its own clip. A clipped vector
// is the same point under any wider clip, so both fit one side.
std::vector<float> Mixed(const StudyMaterial& m, const std::vector<size_t>& order, size_t count) {
  std::vector<float> z;
  std::vector<uint8_t> fresh(order.size(), 0);
  for (size_t i = 0; i < count; ++i) fresh[order[i]] = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    const LabelledEmbeddings& side = fresh[i] != 0 ? m.next : m.old.gallery;
    const auto row = side.z.subspan(i * kDimension, kDimension);
    const double scale = std::min(1.0, side.clip_radius / NormOf(row));
    for (const float value : row) z.push_back(static_cast<float>(value * scale));
  }
  return z;
}

TEST(StudyUncertainty, EveryPointOfACurveIsTheRetrievalFromThatMixedGallery) {
  const ScatteredGallery gallery;
  const StudyMaterial m = gallery.Material();
  const UncertaintyStudy study = *StudyUncertainty(m, 1);
  for (const char* name : {"norm before the clip", "cosine to the nearest class mean"}) {  // without equal scores
    const size_t p = IndexOf(name);
    const std::vector<double> scores = (*PredictorScores(m.old))[p];
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    const BackfillCurve& curve = study.predictors[p].curve;
    ASSERT_EQ(curve.map.size(), static_cast<size_t>(kBackfillSteps + 1));
    for (int step = 0; step <= kBackfillSteps; ++step) {
      const std::vector<float> mixed = Mixed(m, order, order.size() * static_cast<size_t>(step) / kBackfillSteps);
      const RetrievalFigures figures =
          *EvaluateRetrieval(m.old.space, m.next, {mixed, m.next.labels, m.next.clip_radius}, true);
      EXPECT_NEAR(curve.map[static_cast<size_t>(step)], figures.map, 1e-6) << name << " " << step;
      EXPECT_NEAR(curve.cmc1[static_cast<size_t>(step)], figures.cmc1, 1e-6) << name << " " << step;
    }
  }
}

TEST(StudyUncertainty, AreasRunFromARandomOrderToTheOracle) {
  const ScatteredGallery gallery;
  const std::vector<UncertaintyStudy> seeds = {*StudyUncertainty(gallery.Material(), 1),
                                               *StudyUncertainty(gallery.Material(), 2)};
  EXPECT_EQ(seeds[0].random.size(), static_cast<size_t>(kRandomOrders));
  EXPECT_NE(seeds[0].random[0].map, seeds[1].random[0].map) << "other random orders";
  EXPECT_EQ(seeds[0].oracle.map.back(), seeds[0].random[0].map.back()) << "all curves end at the new gallery";
  EXPECT_NEAR(AreaShare(seeds, IndexOf("norm before the clip")).value(), 1, 0.15) << "here as good as the oracle";
  EXPECT_NEAR(AreaShare(seeds, IndexOf("class unknown to the old model")).value(), 0, 0.5);
  std::vector<UncertaintyStudy> level = seeds;
  for (UncertaintyStudy& study : level) study.oracle = study.random[0];
  EXPECT_FALSE(AreaShare(level, 0).has_value()) << "an oracle within the spread of random orders is no measure";
}

// Scores that are all equal are a random order, however the gallery is sorted.
TEST(StudyUncertainty, APredictorThatSaysNothingIsARandomOrder) {
  const ScatteredGallery gallery;
  StudyMaterial m = gallery.Material();
  const std::vector<uint8_t> all(m.old.known.size(), 1);
  m.old.known = all;
  const size_t p = IndexOf("class unknown to the old model");
  std::vector<UncertaintyStudy> seeds;
  for (uint64_t seed = 1; seed <= 8; ++seed) seeds.push_back(*StudyUncertainty(m, seed));
  EXPECT_EQ(seeds[0].predictors[p].auroc.value(), 0.5);
  EXPECT_NEAR(AreaShare(seeds, p).value(), 0, 0.25);
}

TEST(StudyUncertainty, GivesTheSameFiguresForTheSameSeed) {
  const ScatteredGallery gallery;
  const UncertaintyStudy a = *StudyUncertainty(gallery.Material(), 1), b = *StudyUncertainty(gallery.Material(), 1);
  EXPECT_EQ(a.random[2].map, b.random[2].map);
  for (size_t i = 0; i < a.predictors.size(); ++i) EXPECT_EQ(a.predictors[i].curve.map, b.predictors[i].curve.map);
}

TEST(StudyUncertainty, LeavesOutItemsThatNoModelCouldFind) {
  const std::vector<float> z = {0.5f, 0, 0.6f, 0.1f, 0.7f, 0, 0, 0.5f, 0.1f, 0.6f, -0.9f, 0};
  const std::vector<int32_t> labels = {0, 0, 0, 1, 1, 2};
  const std::vector<uint8_t> known(6, 1);
  StudyMaterial m;
  const std::vector<float> copies(kImageCopies * z.size(), 0.3f), logits(2 * labels.size(), 0.0f);
  m.old = {{"lorentz", 1.0, 2}, {z, labels, 1.0}, {z, labels, 1.0}, known, copies, logits,
           {z, labels, 1.0},    {z, labels, 1.2}};
  m.next = {z, labels, 1.2};
  const UncertaintyStudy study = *StudyUncertainty(m, 1);
  EXPECT_EQ(study.items, 6);
  EXPECT_EQ(study.items_left_out, 3) << "classes of two and of one";
  EXPECT_EQ(study.items_wrong, 0);
  EXPECT_FALSE(study.predictors[0].auroc.has_value()) << "nothing is wrong, so nothing can be told";
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
  m.old.copies = m.old.copies.first(3);
  EXPECT_THAT(error(m), HasSubstr("field 'copies' is 3 numbers; allowed: 30720, 4 copies of the gallery"));
  std::vector<float> bad(m.old.head_logits.begin(), m.old.head_logits.end());
  bad[7] = std::numeric_limits<float>::quiet_NaN();
  m = gallery.Material();
  m.old.head_logits = bad;
  EXPECT_THAT(error(m), HasSubstr("field 'head_logits[7]' is nan; allowed: a finite number"));
  m.old.head_logits = m.old.head_logits.first(121);
  bad[7] = 0;
  EXPECT_THAT(error(m),
              HasSubstr("field 'head_logits' is 121 numbers; allowed: those of 2 or more classes for each of"));
  m = gallery.Material();
  std::vector<int32_t> labels(m.old.training.labels.begin(), m.old.training.labels.end());
  labels[4] = -1;
  m.old.training.labels = labels;
  EXPECT_THAT(error(m), HasSubstr("field 'training.labels' is -1; allowed: 0 or above"));
  m = gallery.Material();
  m.next.z = m.next.z.first(kDimension);
  EXPECT_THAT(error(m), HasSubstr("field 'queries.z' is 64 numbers; allowed: 7680 (120 labels x 64)"));
  m = gallery.Material();
  m.old.training.z = m.old.training.z.first(kDimension);
  EXPECT_THAT(error(m), HasSubstr("field 'training.z' is 64 numbers"));
  m = gallery.Material();
  const std::vector<float> copies(m.old.gallery.z.size(), 0.1f);
  m.old.gallery.z = copies;
  EXPECT_THAT(error(m), HasSubstr("field 'gallery' is copies of the gallery's items alone"));
}

TEST(StudyUncertainty, StopsWhenTold) {
  const ScatteredGallery gallery;
  const std::atomic<bool> stop = true;
  EXPECT_EQ(StudyUncertainty(gallery.Material(), 1, &stop).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lightcone
