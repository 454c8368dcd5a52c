#include "trainer/uncertainty/study.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "geometry/metrics.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/data/rng.h"

namespace lightcone {
namespace {

constexpr int kRandomOrders = 3;
constexpr uint64_t kOrderStream = 0x0bdeu;

using Order = std::vector<size_t>;

Order WorstFirst(const std::vector<double>& scores) {
  Order order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

GalleryLeg LegOf(const RetrievalSpace& space, const LabelledEmbeddings& queries, const LabelledEmbeddings& items) {
  Space geometry{Metric::kLorentz, space.dimension, space.curvature, queries.clip_radius};
  const auto points = [&](const LabelledEmbeddings& side) {
    geometry.clip_radius = side.clip_radius;
    const int64_t n = static_cast<int64_t>(side.labels.size());
    return LiftTo(geometry,
                  torch::from_blob(const_cast<float*>(side.z.data()), {n, space.dimension}).to(torch::kFloat64));
  };
  MetricPoints of_queries = points(queries), of_items = points(items);
  return {geometry, std::move(of_queries), std::move(of_items)};
}

// The curves of several orders, ranked together: distances are computed once.
std::vector<BackfillCurve> Curves(const StudyMaterial& m, const std::vector<Order>& orders) {
  const size_t n = m.next.labels.size();
  std::vector<std::vector<uint8_t>> masks = {std::vector<uint8_t>(n, 0), std::vector<uint8_t>(n, 1)};
  for (const Order& order : orders) {
    for (int step = 1; step < kBackfillSteps; ++step) {
      std::vector<uint8_t>& mask = masks.emplace_back(n, uint8_t{0});
      const size_t count = n * static_cast<size_t>(step) / kBackfillSteps;
      for (size_t i = 0; i < count; ++i) mask[order[i]] = 1;
    }
  }
  const std::vector<RetrievalFigures> figures =
      RankTwoLegs(LegOf(m.old.space, m.next, m.old.gallery), LegOf(m.old.space, m.next, m.next), m.next.labels, masks);
  std::vector<BackfillCurve> curves;
  auto next = figures.begin() + 2;
  for (size_t i = 0; i < orders.size(); ++i) {
    BackfillCurve& curve = curves.emplace_back();
    const auto add = [&](const RetrievalFigures& f) {
      curve.cmc1.push_back(f.cmc1);
      curve.map.push_back(f.map);
    };
    add(figures[0]);
    for (int step = 1; step < kBackfillSteps; ++step) add(*next++);
    add(figures[1]);
  }
  return curves;
}

BackfillCurve MeanOf(std::span<const BackfillCurve> curves) {
  BackfillCurve mean{std::vector<double>(kBackfillSteps + 1, 0.0), std::vector<double>(kBackfillSteps + 1, 0.0)};
  for (const BackfillCurve& curve : curves) {
    for (size_t i = 0; i < mean.map.size(); ++i) {
      mean.cmc1[i] += curve.cmc1[i] / static_cast<double>(curves.size());
      mean.map[i] += curve.map[i] / static_cast<double>(curves.size());
    }
  }
  return mean;
}

// Trapezoids of width 1/kBackfillSteps.
double Area(const std::vector<double>& curve) {
  const double inner = std::accumulate(curve.begin() + 1, curve.end() - 1, 0.0);
  return (inner + (curve.front() + curve.back()) / 2) / kBackfillSteps;
}

double ShareOfTheWay(const std::vector<double>& curve, const std::vector<double>& random,
                     const std::vector<double>& oracle) {
  const double way = Area(oracle) - Area(random);
  return way == 0 ? 0 : (Area(curve) - Area(random)) / way;
}

}  // namespace

absl::StatusOr<UncertaintyStudy> StudyUncertainty(const StudyMaterial& m, uint64_t seed) {
  LC_ASSIGN_OR_RETURN(const std::vector<Predictor> predictors, PredictorsOf(m.old));
  LC_ASSIGN_OR_RETURN(const std::vector<int> own,
                      OwnAmongNearest(m.old.space, m.next, m.old.gallery, /*same_items=*/true));
  torch::NoGradGuard no_grad;
  UncertaintyStudy study;
  study.items = static_cast<int64_t>(own.size());
  std::vector<uint8_t> wrong;
  std::vector<double> fewest;
  for (const int count : own) {
    wrong.push_back(count < kOwnClassNeeded);
    fewest.push_back(-count);
    study.items_wrong += wrong.back();
  }
  std::vector<Order> orders = {WorstFirst(fewest)};
  Rng rng(MixSeed({seed, kOrderStream}));
  for (int i = 0; i < kRandomOrders; ++i) {
    orders.push_back(WorstFirst(std::vector<double>(own.size(), 0.0)));
    rng.Shuffle(&orders.back());
  }
  for (const Predictor& predictor : predictors) orders.push_back(WorstFirst(predictor.scores));
  const std::vector<BackfillCurve> curves = Curves(m, orders);
  study.oracle = curves[0];
  study.random = MeanOf({curves.data() + 1, kRandomOrders});
  for (size_t i = 0; i < predictors.size(); ++i) {
    const BackfillCurve& curve = curves[1 + kRandomOrders + i];
    study.predictors.push_back({predictors[i].name, predictors[i].needs,
                                Auroc(predictors[i].scores, wrong).value_or(0.5),
                                ShareOfTheWay(curve.cmc1, study.random.cmc1, study.oracle.cmc1),
                                ShareOfTheWay(curve.map, study.random.map, study.oracle.map)});
  }
  return study;
}

}  // namespace lightcone
