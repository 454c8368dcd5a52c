#include "trainer/uncertainty/predictors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "geometry/metric.h"
#include "geometry/uncertainty.h"
#include "trainer/data/parallel.h"
#include "trainer/uncertainty/neighbours.h"

namespace lightcone {
namespace {

constexpr int64_t kNeighboursMax = 512, kTrainingNeighbours = 64;
constexpr size_t kListLength = 16;  // of the predictors that compare lists
constexpr double kClassTemperature = 0.1;

constexpr char kNothing[] = "nothing", kGallery[] = "the old gallery", kTraining[] = "the training set",
               kMeans[] = "class means", kLabels[] = "labels";

// scores[i] = score(i), on all cores.
template <typename Score>
std::vector<double> ForEach(size_t n, const Score& score) {
  std::vector<double> scores(n);
  ParallelFor(static_cast<int64_t>(n),
              [&](int64_t i) { scores[static_cast<size_t>(i)] = score(static_cast<size_t>(i)); });
  return scores;
}

// Ranks of two scores added, so that no unit decides.
std::vector<double> RankSum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sum(a.size(), 0.0);
  for (const std::vector<double>* scores : {&a, &b}) {
    std::vector<size_t> order(scores->size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return (*scores)[x] < (*scores)[y]; });
    for (size_t rank = 0; rank < order.size(); ++rank) sum[order[rank]] += static_cast<double>(rank);
  }
  return sum;
}

double MedianNearest(const NeighbourLists& lists, size_t n) {
  std::vector<double> nearest(n);
  for (size_t i = 0; i < n; ++i) nearest[i] = lists.DistancesOf(i)[0];
  std::nth_element(nearest.begin(), nearest.begin() + static_cast<int64_t>(n / 2), nearest.end());
  return std::max(nearest[n / 2], 1e-12);
}

// Entropy of the `k` nearest (or as many as there are) at tau = `share` of the median distance to the nearest.
std::vector<double> Entropies(const NeighbourLists& lists, size_t n, size_t k, double share) {
  const double tau = share * MedianNearest(lists, n);
  return ForEach(n, [&](size_t i) { return NeighbourEntropy(lists.DistancesOf(i).first(std::min(k, lists.k)), tau); });
}

double Mean(std::span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Nearest first: how much nearer the 4 nearest are than the 15 behind them.
std::vector<double> Steepness(const NeighbourLists& lists, size_t n) {
  return ForEach(n, [&](size_t i) {
    const std::span<const double> d = lists.DistancesOf(i);
    const size_t near = std::min<size_t>(4, d.size()), far = std::min<size_t>(19, d.size());
    return Mean(d.first(near)) - Mean(d.subspan(near, far - near));
  });
}

bool Lists(const NeighbourLists& lists, size_t item, size_t wanted, size_t length) {
  const std::span<const int32_t> ids = lists.IdsOf(item).first(length);
  return std::find(ids.begin(), ids.end(), static_cast<int32_t>(wanted)) != ids.end();
}

// In how few lists of others the item stands.
std::vector<double> Unlisted(const NeighbourLists& lists, size_t n, size_t length) {
  std::vector<double> scores(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    for (const int32_t id : lists.IdsOf(i).first(length)) scores[static_cast<size_t>(id)] -= 1;
  }
  return scores;
}

// How few of those in the item's list have it in theirs.
std::vector<double> Unreturned(const NeighbourLists& lists, size_t n, size_t length) {
  return ForEach(n, [&](size_t i) {
    double mutual = 0;
    for (const int32_t id : lists.IdsOf(i).first(length)) mutual += Lists(lists, static_cast<size_t>(id), i, length);
    return -mutual;
  });
}

// How little the item's list shares with the lists of those in it.
std::vector<double> Unshared(const NeighbourLists& lists, size_t n, size_t length) {
  return ForEach(n, [&](size_t i) {
    const std::span<const int32_t> own = lists.IdsOf(i).first(length);
    double shared = 0;
    for (const int32_t id : own) {
      for (const int32_t other : own)
        shared += Lists(lists, static_cast<size_t>(id), static_cast<size_t>(other), length);
    }
    return -shared;
  });
}

// Cosines of every item to the mean direction of every class of the training set: n x classes.
struct ClassCosines {
  size_t classes = 0;
  std::vector<double> values;
  std::span<const double> Of(size_t item) const { return {values.data() + item * classes, classes}; }
};

ClassCosines CosinesToMeans(const PredictorMaterial& m) {
  const size_t d = static_cast<size_t>(m.space.dimension), n = m.gallery.labels.size();
  ClassCosines out;
  out.classes = static_cast<size_t>(*std::max_element(m.training.labels.begin(), m.training.labels.end())) + 1;
  std::vector<double> means(out.classes * d, 0.0);
  for (size_t i = 0; i < m.training.labels.size(); ++i) {
    const std::span<const float> z = m.training.z.subspan(i * d, d);
    const double norm = std::max(NormOf(z), 1e-30);
    for (size_t j = 0; j < d; ++j) means[static_cast<size_t>(m.training.labels[i]) * d + j] += z[j] / norm;
  }
  for (size_t c = 0; c < out.classes; ++c) {
    double square = 0;
    for (size_t j = 0; j < d; ++j) square += means[c * d + j] * means[c * d + j];
    for (size_t j = 0; j < d; ++j) means[c * d + j] /= std::max(std::sqrt(square), 1e-30);
  }
  out.values.resize(n * out.classes);
  ParallelFor(static_cast<int64_t>(n), [&](int64_t i) {
    const std::span<const float> z = m.gallery.z.subspan(static_cast<size_t>(i) * d, d);
    const double norm = std::max(NormOf(z), 1e-30);
    for (size_t c = 0; c < out.classes; ++c) {
      double dot = 0;
      for (size_t j = 0; j < d; ++j) dot += z[j] * means[c * d + j];
      out.values[static_cast<size_t>(i) * out.classes + c] = dot / norm;
    }
  });
  return out;
}

// Nearest class mean first: (highest, second highest) cosine.
std::pair<double, double> BestTwo(std::span<const double> cosines) {
  double first = -2, second = -2;
  for (const double c : cosines) {
    if (c > first)
      second = std::exchange(first, c);
    else
      second = std::max(second, c);
  }
  return {first, second};
}

void AddOfMeans(const PredictorMaterial& m, std::vector<Predictor>* out) {
  const size_t n = m.gallery.labels.size();
  const ClassCosines cosines = CosinesToMeans(m);
  out->push_back({"entropy over class means, tau = .1", kMeans, ForEach(n, [&](size_t i) {
                    std::vector<double> distances;
                    for (const double c : cosines.Of(i)) distances.push_back(1 - c);
                    return NeighbourEntropy(distances, kClassTemperature);
                  })});
  out->push_back({"cosine to the nearest class mean", kMeans,
                  ForEach(n, [&](size_t i) { return -BestTwo(cosines.Of(i)).first; })});
  out->push_back({"margin between two class means", kMeans, ForEach(n, [&](size_t i) {
                    const auto [first, second] = BestTwo(cosines.Of(i));
                    return second - first;
                  })});
}

absl::Status Check(const PredictorMaterial& m) {
  if (m.space.metric != "lorentz") return InvalidField("space.metric", m.space.metric, "lorentz");
  if (m.known.size() != m.gallery.labels.size()) {
    return InvalidField("known", StrCat(m.known.size(), " items"), StrCat(m.gallery.labels.size(), ", as the gallery"));
  }
  for (const int32_t label : m.training.labels) {
    if (label < 0) return InvalidField("training.labels", StrCat(label), "0 or above");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Predictor>> PredictorsOf(const PredictorMaterial& m) {
  LC_RETURN_IF_ERROR(Check(m));
  LC_ASSIGN_OR_RETURN(const NeighbourLists near,
                      NearestNeighbours(m.space, m.gallery, m.gallery, /*same_items=*/true, kNeighboursMax));
  LC_ASSIGN_OR_RETURN(const NeighbourLists trained,
                      NearestNeighbours(m.space, m.gallery, m.training, /*same_items=*/false, kTrainingNeighbours));
  const size_t n = m.gallery.labels.size(), d = static_cast<size_t>(m.space.dimension);
  const size_t length = std::min(kListLength, near.k);
  const Space geometry{Metric::kLorentz, m.space.dimension, m.space.curvature, m.gallery.clip_radius};
  const auto row = [&](size_t i) { return m.gallery.z.subspan(i * d, d); };

  std::vector<Predictor> all;
  all.push_back(
      {"norm before the clip", kNothing, ForEach(n, [&](size_t i) { return UncertaintyOf(geometry, row(i)); })});
  all.push_back(
      {"norm after the clip", kNothing, ForEach(n, [&](size_t i) { return ClippedUncertaintyOf(geometry, row(i)); })});
  all.push_back(
      {"distance to the nearest item", kGallery, ForEach(n, [&](size_t i) { return near.DistancesOf(i)[0]; })});
  all.push_back({"entropy of the 64 nearest, tau = .1 d1", kGallery, Entropies(near, n, 64, 0.1)});
  all.push_back({"entropy of the 64 nearest, tau = .2 d1", kGallery, Entropies(near, n, 64, 0.2)});
  all.push_back({"entropy of the 512 nearest, tau = .15 d1", kGallery, Entropies(near, n, 512, 0.15)});
  all.push_back({"4 nearest against the next 15", kGallery, Steepness(near, n)});
  all.push_back({"in few lists of 16", kGallery, Unlisted(near, n, length)});
  all.push_back({"few of its 16 nearest list it", kGallery, Unreturned(near, n, length)});
  all.push_back({"its list of 16 shares little with theirs", kGallery, Unshared(near, n, length)});
  all.push_back({"distance to the nearest training image", kTraining,
                 ForEach(n, [&](size_t i) { return trained.DistancesOf(i)[0]; })});
  all.push_back({"entropy of the 64 nearest training images, tau = .2 d1", kTraining, Entropies(trained, n, 64, 0.2)});
  AddOfMeans(m, &all);
  const auto scores = [&](std::string_view name) -> const std::vector<double>& {
    return std::find_if(all.begin(), all.end(), [&](const Predictor& p) { return p.name == name; })->scores;
  };
  const auto add_sum = [&](std::string_view a, std::string_view b, const char* needs) {
    all.push_back({StrCat(a, "; and ", b, " (sum of ranks)"), needs, RankSum(scores(a), scores(b))});
  };
  add_sum("entropy of the 64 nearest, tau = .2 d1", "norm before the clip", kGallery);
  add_sum("entropy of the 64 nearest, tau = .2 d1", "its list of 16 shares little with theirs", kGallery);
  add_sum("entropy of the 512 nearest, tau = .15 d1", "norm before the clip", kGallery);
  add_sum("entropy of the 512 nearest, tau = .15 d1", "entropy over class means, tau = .1", "both");
  all.push_back(
      {"class unknown to the old model", kLabels, ForEach(n, [&](size_t i) { return m.known[i] ? 0.0 : 1.0; })});
  all.push_back({"of its 10 nearest few are of its class", kLabels, ForEach(n, [&](size_t i) {
                   double own = 0;
                   for (const int32_t id : near.IdsOf(i).first(std::min<size_t>(10, near.k))) {
                     own += m.gallery.labels[static_cast<size_t>(id)] == m.gallery.labels[i];
                   }
                   return -own;
                 })});
  return all;
}

}  // namespace lightcone
