#include "research/uncertainty/predictors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "geometry/lorentz.h"
#include "geometry/metric.h"
#include "geometry/uncertainty.h"
#include "trainer/uncertainty/class_evidence.h"
#include "trainer/uncertainty/failure_head.h"
#include "trainer/uncertainty/neighbourhood.h"

namespace lightcone {
namespace {

constexpr int64_t kNeighboursMax = 512, kTrainingNeighbours = 64;
constexpr size_t kListLength = 16;  // length of the lists that predictors compare

constexpr char kNothing[] = "nothing", kGallery[] = "the old gallery", kTraining[] = "the training set",
               kMeans[] = "class means", kGalleryAndMeans[] = "the old gallery, class means", kLabels[] = "labels",
               kCopies[] = "four more embeddings of the image", kHead[] = "the old model's head",
               kGalleryAndCopies[] = "the old gallery, four more embeddings of the image",
               kOldModel[] = "the old gallery, class means, the training set",
               kBothModels[] = "the old gallery, class means, training images by both models";

struct Facts {
  const PredictorMaterial& material;
  Neighbourhood near, trained;  // neighbours in the gallery without the item itself, and in the training set
  ClassMeans means;
  std::vector<ClassEvidence> classes;
  std::vector<HeadFeatures> head;

  size_t size() const { return material.gallery.labels.size(); }
  Space space() const {
    return {Metric::kLorentz, material.space.dimension, material.space.curvature, material.gallery.clip_radius};
  }
  std::span<const float> Row(size_t i) const {
    const size_t d = static_cast<size_t>(material.space.dimension);
    return material.gallery.z.subspan(i * d, d);
  }
};

// Entropy over the `k` nearest, or as many as there are, at tau = `share` d1 (geometry/uncertainty.h).
Scores NeighbourEntropies(const Neighbourhood& near, size_t k, double share) {
  return ForEachItem(near.lists.size(), [&](size_t i) {
    return NeighbourEntropy(near.lists.DistancesOf(i).first(std::min(k, near.lists.k)), share * near.d1);
  });
}

Scores NearestDistances(const Neighbourhood& near) {
  return ForEachItem(near.lists.size(), [&](size_t i) { return near.lists.DistancesOf(i)[0]; });
}

bool Lists(const Facts& f, int32_t item, int32_t wanted) {
  const std::span<const int32_t> list = f.near.lists.FirstOf(static_cast<size_t>(item), kListLength);
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

// In how few lists of others the item stands.
Scores Unlisted(const Facts& f) {
  Scores scores(f.size(), 0.0);
  for (size_t i = 0; i < scores.size(); ++i) {
    for (const int32_t id : f.near.lists.FirstOf(i, kListLength)) scores[static_cast<size_t>(id)] -= 1;
  }
  return scores;
}

// How little the item's list shares with the lists of those in it.
Scores Unshared(const Facts& f) {
  return ForEachItem(f.size(), [&](size_t i) {
    double shared = 0;
    for (const int32_t id : f.near.lists.FirstOf(i, kListLength)) {
      for (const int32_t other : f.near.lists.FirstOf(i, kListLength)) shared += Lists(f, id, other);
    }
    return -shared;
  });
}

// How few of its 10 nearest are of the item's class.
Scores Strangers(const Facts& f) {
  return ForEachItem(f.size(), [&](size_t i) {
    const std::span<const int32_t> labels = f.material.gallery.labels;
    double own = 0;
    for (const int32_t id : f.near.lists.FirstOf(i, 10)) {
      own += labels[static_cast<size_t>(id)] == labels[i];
    }
    return -own;
  });
}

// Ranks from 0; equal scores share their mean rank, so that the order of the items says nothing.
Scores Ranks(const Scores& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  Scores ranks(scores.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

// Ranks of two scores added: neither's unit decides.
Scores RankSum(const Scores& a, const Scores& b) {
  Scores sum = Ranks(a);
  const Scores more = Ranks(b);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  return sum;
}

Scores Norms(const Facts& f) {
  return ForEachItem(f.size(), [&](size_t i) { return UncertaintyOf(f.space(), f.Row(i)); });
}

Scores Evidence(const Facts& f, double ClassEvidence::*part) {
  return ForEachItem(f.size(), [&](size_t i) { return f.classes[i].*part; });
}

Scores Negated(Scores scores) {
  for (double& score : scores) score = -score;
  return scores;
}

std::vector<double> PointOf(const Facts& f, std::span<const float> z) {
  const Space space = f.space();
  const std::vector<double> wide(z.begin(), z.end());
  return lorentz::Exp0(lorentz::RescaleClip(wide, 1.0, space.clip_radius), space.curvature);
}

// Mean distance of an item to its changed copies.
Scores Disagreement(const Facts& f) {
  const size_t d = static_cast<size_t>(f.space().dimension);
  return ForEachItem(f.size(), [&](size_t i) {
    const std::vector<double> item = PointOf(f, f.Row(i));
    double sum = 0;
    for (size_t copy = 0; copy < kImageCopies; ++copy) {
      const std::span<const float> changed = f.material.copies.subspan((copy * f.size() + i) * d, d);
      sum += lorentz::Geodesic(item, PointOf(f, changed), f.space().curvature);
    }
    return sum / kImageCopies;
  });
}

// That, in distances to the nearest other item: whether changes lead further than to another item.
Scores RelativeDisagreement(const Facts& f) {
  Scores scores = Disagreement(f);
  const Scores nearest = NearestDistances(f.near);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] /= std::max(nearest[i], 1e-6 * f.near.d1);
  return scores;
}

// `score` of what the old model's head says of an item: its logits, negated and ascending, as distances to the classes.
template <typename Score>
Scores HeadSays(const Facts& f, const Score& score) {
  const size_t classes = f.material.head_logits.size() / f.size();
  return ForEachItem(f.size(), [&](size_t i) {
    std::vector<double> distances;
    for (const float logit : f.material.head_logits.subspan(i * classes, classes)) distances.push_back(-logit);
    std::sort(distances.begin(), distances.end());
    return score(distances);
  });
}

// Probability of the second class less that of the first, of the softmax.
double HeadMargin(const std::vector<double>& distances) {
  double sum = 0;
  for (const double distance : distances) sum += std::exp(distances[0] - distance);
  return (std::exp(distances[0] - distances[1]) - 1) / sum;
}

// What a head that learned from these images says; nothing where it could learn nothing.
absl::StatusOr<Scores> HeadScores(const Facts& f, const LabelledEmbeddings& old, const LabelledEmbeddings& queries) {
  LC_ASSIGN_OR_RETURN(const std::optional<FittedHead> fitted,
                      FitFailureHead(f.material.space, f.means, old, queries, static_cast<int64_t>(f.size())));
  if (!fitted.has_value()) return Scores(f.size(), 0.0);
  return ForEachItem(f.size(), [&](size_t i) { return fitted->head.Score(f.head[i]); });
}

struct PredictorRow {
  PredictorInfo info;
  std::function<absl::StatusOr<Scores>(const Facts&)> scores;
};

const std::vector<PredictorRow>& Table() {
  using F = const Facts&;
  static const auto* const kTable = new std::vector<PredictorRow>{
      {{"norm before the clip", kNothing}, Norms},
      {{"norm after the clip", kNothing},
       [](F f) { return ForEachItem(f.size(), [&](size_t i) { return ClippedUncertaintyOf(f.space(), f.Row(i)); }); }},
      {{"distance to the nearest item", kGallery}, [](F f) { return NearestDistances(f.near); }},
      {{"entropy of the 64 nearest, tau = .1 d1", kGallery}, [](F f) { return NeighbourEntropies(f.near, 64, 0.1); }},
      {{"entropy of the 64 nearest, tau = .2 d1", kGallery}, [](F f) { return NeighbourEntropies(f.near, 64, 0.2); }},
      {{"entropy of the 512 nearest, tau = .15 d1", kGallery},
       [](F f) { return NeighbourEntropies(f.near, 512, 0.15); }},
      {{"4 nearest against the next 15", kGallery}, [](F f) { return Steepness(f.near); }},
      {{"in few lists of 16", kGallery}, Unlisted},
      {{"few of its 16 nearest list it", kGallery}, [](F f) { return Negated(Returned(f.near, kListLength)); }},
      {{"its list of 16 shares little with theirs", kGallery}, Unshared},
      {{"distance to the nearest training image", kTraining}, [](F f) { return NearestDistances(f.trained); }},
      {{"entropy of the 64 nearest training images, tau = .2 d1", kTraining},
       [](F f) { return NeighbourEntropies(f.trained, 64, 0.2); }},
      {{"entropy over class means, tau = .1", kMeans}, [](F f) { return Evidence(f, &ClassEvidence::entropy); }},
      {{"cosine to the nearest class mean", kMeans}, [](F f) { return Evidence(f, &ClassEvidence::cosine); }},
      {{"margin between two class means", kMeans}, [](F f) { return Evidence(f, &ClassEvidence::margin); }},
      {{"entropy of the old head", kHead},
       [](F f) { return HeadSays(f, [](const std::vector<double>& d) { return NeighbourEntropy(d, 1); }); }},
      {{"margin of the old head", kHead}, [](F f) { return HeadSays(f, HeadMargin); }},
      {{"changed copies lie away", kCopies}, Disagreement},
      {{"changed copies lie away, in distances to the nearest item", kGalleryAndCopies}, RelativeDisagreement},
      {{"entropy of 64 and changed copies (sum of ranks)", kGalleryAndCopies},
       [](F f) { return RankSum(NeighbourEntropies(f.near, 64, 0.2), Disagreement(f)); }},
      {{"entropy of 64 and norm (sum of ranks)", kGallery},
       [](F f) { return RankSum(NeighbourEntropies(f.near, 64, 0.2), Norms(f)); }},
      {{"entropy of 64 and shared lists (sum of ranks)", kGallery},
       [](F f) { return RankSum(NeighbourEntropies(f.near, 64, 0.2), Unshared(f)); }},
      {{"entropy of 512 and norm (sum of ranks)", kGallery},
       [](F f) { return RankSum(NeighbourEntropies(f.near, 512, 0.15), Norms(f)); }},
      {{"entropy of 512 and over class means (sum of ranks)", kGalleryAndMeans},
       [](F f) { return RankSum(NeighbourEntropies(f.near, 512, 0.15), Evidence(f, &ClassEvidence::entropy)); }},
      {{"head, learnt from training images of both models", kBothModels},
       [](F f) { return HeadScores(f, f.material.pairs_old, f.material.pairs_next); }},
      {{"head, learnt from the old model's training images", kOldModel},
       [](F f) { return HeadScores(f, f.material.training, f.material.training); }},
      {{"class unknown to the old model", kLabels},
       [](F f) { return ForEachItem(f.size(), [&](size_t i) { return f.material.known[i] != 0 ? 0.0 : 1.0; }); }},
      {{"of its 10 nearest few are of its class", kLabels}, Strangers},
  };
  return *kTable;
}

absl::Status CheckFinite(const char* field, std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return InvalidField(StrCat(field, "[", i, "]"), StrCat(values[i]), "a finite number");
  }
  return absl::OkStatus();
}

absl::Status Check(const PredictorMaterial& m) {
  if (m.space.metric != "lorentz") return InvalidField("space.metric", m.space.metric, "lorentz");
  if (m.known.size() != m.gallery.labels.size()) {
    return InvalidField("known", StrCat(m.known.size(), " items"), StrCat(m.gallery.labels.size(), ", as the gallery"));
  }
  const size_t items = m.gallery.labels.size();
  if (m.copies.size() != kImageCopies * m.gallery.z.size()) {
    return InvalidField("copies", StrCat(m.copies.size(), " numbers"),
                        StrCat(kImageCopies * m.gallery.z.size(), ", ", kImageCopies, " copies of the gallery"));
  }
  LC_RETURN_IF_ERROR(CheckFinite("copies", m.copies));
  LC_RETURN_IF_ERROR(CheckFinite("head_logits", m.head_logits));
  if (items == 0 || m.head_logits.size() < 2 * items || m.head_logits.size() % items != 0) {
    return InvalidField("head_logits", StrCat(m.head_logits.size(), " numbers"),
                        StrCat("those of 2 or more classes for each of ", items, " items"));
  }
  for (const int32_t label : m.training.labels) {
    if (label < 0) return InvalidField("training.labels", StrCat(label), "0 or above");
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<PredictorInfo>& PredictorList() {
  static const auto* const kList = [] {
    auto* list = new std::vector<PredictorInfo>();
    for (const PredictorRow& row : Table()) list->push_back(row.info);
    return list;
  }();
  return *kList;
}

absl::StatusOr<std::vector<std::vector<double>>> PredictorScores(const PredictorMaterial& m) {
  LC_RETURN_IF_ERROR(Check(m));
  const NamedSide gallery{"gallery", m.gallery};
  LC_ASSIGN_OR_RETURN(Neighbourhood near,
                      NeighbourhoodOf(m.space, gallery, gallery, /*same_items=*/true, kNeighboursMax));
  LC_ASSIGN_OR_RETURN(Neighbourhood trained, NeighbourhoodOf(m.space, gallery, {"training", m.training},
                                                             /*same_items=*/false, kTrainingNeighbours));
  ClassMeans means = ClassMeansOf(m.space, m.training);
  std::vector<ClassEvidence> classes = EvidenceOf(m.space, m.gallery, means);
  std::vector<HeadFeatures> head = HeadFeaturesOf(m.space, m.gallery, near, classes);
  const Facts facts{m, std::move(near), std::move(trained), std::move(means), std::move(classes), std::move(head)};
  std::vector<Scores> all;
  for (const PredictorRow& row : Table()) {
    LC_ASSIGN_OR_RETURN(Scores scores, row.scores(facts));
    all.push_back(std::move(scores));
  }
  return all;
}

}  // namespace lightcone
