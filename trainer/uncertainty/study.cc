#include "trainer/uncertainty/study.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "geometry/metrics.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/data/rng.h"

namespace lightcone {
namespace {

constexpr uint64_t kOrderStream = 0x0bdeu;

using Order = std::vector<size_t>;

Order RandomOrder(size_t n, Rng* rng) {
  Order order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  rng->Shuffle(&order);
  return order;
}

// Equal scores stay in the order of `ties`: a gallery is mostly sorted by class, which its order must not tell.
Order WorstFirst(const std::vector<double>& scores, Order ties) {
  std::stable_sort(ties.begin(), ties.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return ties;
}

MetricPoints PointsOf(const RetrievalSpace& space, const LabelledEmbeddings& side) {
  const int64_t n = static_cast<int64_t>(side.labels.size());
  const torch::Tensor z = torch::from_blob(const_cast<float*>(side.z.data()), {n, space.dimension});
  return LiftTo({Metric::kLorentz, space.dimension, space.curvature, side.clip_radius}, z.to(torch::kFloat64));
}

// The curves of several orders, ranked together: distances are computed once.
std::vector<BackfillCurve> Curves(const StudyMaterial& m, const std::vector<Order>& orders) {
  const size_t n = m.next.labels.size();
  std::vector<std::vector<uint8_t>> masks = {std::vector<uint8_t>(n, 0), std::vector<uint8_t>(n, 1)};
  for (const Order& order : orders) {
    for (size_t step = 1; step < kBackfillSteps; ++step) {
      std::vector<uint8_t>& mask = masks.emplace_back(n, uint8_t{0});
      for (size_t i = 0; i < n * step / kBackfillSteps; ++i) mask[order[i]] = 1;
    }
  }
  const Space space{Metric::kLorentz, m.old.space.dimension, m.old.space.curvature, m.next.clip_radius};
  const MetricPoints next = PointsOf(m.old.space, m.next);
  const std::vector<RetrievalFigures> figures =
      RankTwoLegs({space, next, PointsOf(m.old.space, m.old.gallery)}, {space, next, next}, m.next.labels, masks);
  std::vector<BackfillCurve> curves(orders.size());
  for (size_t i = 0; i < orders.size(); ++i) {
    for (size_t step = 0; step <= kBackfillSteps; ++step) {
      const RetrievalFigures& at = step == 0                ? figures[0]
                                   : step == kBackfillSteps ? figures[1]
                                                            : figures[2 + i * (kBackfillSteps - 1) + step - 1];
      curves[i].cmc1.push_back(at.cmc1);
      curves[i].map.push_back(at.map);
    }
  }
  return curves;
}

// Whether the item's class has other images enough to find it by.
std::vector<uint8_t> Findable(std::span<const int32_t> labels) {
  std::map<int32_t, int> images;
  for (const int32_t label : labels) ++images[label];
  std::vector<uint8_t> findable;
  for (const int32_t label : labels) findable.push_back(images[label] > kOwnClassNeeded);
  return findable;
}

std::optional<double> AurocAmong(const std::vector<double>& scores, const std::vector<uint8_t>& wrong,
                                 const std::vector<uint8_t>& among) {
  std::vector<double> kept;
  std::vector<uint8_t> kept_wrong;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (among[i] == 0) continue;
    kept.push_back(scores[i]);
    kept_wrong.push_back(wrong[i]);
  }
  return Auroc(kept, kept_wrong);
}

absl::Status CheckStop(const std::atomic<bool>* stop) {
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::CancelledError(ToAbsl("stopped while studying uncertainties; all models are trained"));
}

}  // namespace

double BackfillCurve::AreaOfMap() const {
  return (std::accumulate(map.begin() + 1, map.end() - 1, 0.0) + (map.front() + map.back()) / 2) / kBackfillSteps;
}

absl::StatusOr<UncertaintyStudy> StudyUncertainty(const StudyMaterial& m, uint64_t seed,
                                                  const std::atomic<bool>* stop) {
  LC_RETURN_IF_ERROR(CheckStop(stop));
  LC_ASSIGN_OR_RETURN(const std::vector<std::vector<double>> scores, PredictorScores(m.old));
  LC_RETURN_IF_ERROR(CheckStop(stop));
  LC_ASSIGN_OR_RETURN(const std::vector<int> own,
                      OwnAmongNearest(m.old.space, m.next, m.old.gallery, /*same_items=*/true));
  torch::NoGradGuard no_grad;
  UncertaintyStudy study;
  study.items = static_cast<int64_t>(own.size());
  const std::vector<uint8_t> findable = Findable(m.next.labels);
  std::vector<uint8_t> wrong;
  std::vector<double> fewest;
  for (size_t i = 0; i < own.size(); ++i) {
    wrong.push_back(own[i] < kOwnClassNeeded);
    fewest.push_back(-own[i]);
    study.items_left_out += findable[i] == 0;
    study.items_wrong += findable[i] != 0 && wrong[i] != 0;
  }
  Rng rng(MixSeed({seed, kOrderStream}));
  std::vector<Order> orders;
  for (int i = 0; i < kRandomOrders; ++i) orders.push_back(RandomOrder(own.size(), &rng));
  const Order ties = RandomOrder(own.size(), &rng);
  orders.push_back(WorstFirst(fewest, ties));
  for (const std::vector<double>& of : scores) orders.push_back(WorstFirst(of, ties));
  std::vector<BackfillCurve> curves = Curves(m, orders);
  LC_RETURN_IF_ERROR(CheckStop(stop));
  study.random.assign(curves.begin(), curves.begin() + kRandomOrders);
  study.oracle = std::move(curves[kRandomOrders]);
  for (size_t i = 0; i < scores.size(); ++i) {
    study.predictors.push_back({AurocAmong(scores[i], wrong, findable), std::move(curves[kRandomOrders + 1 + i])});
  }
  return study;
}

std::optional<double> AreaShare(std::span<const UncertaintyStudy> seeds, size_t predictor) {
  double gain = 0, way = 0, spread = 0;
  for (const UncertaintyStudy& study : seeds) {
    double random = 0, least = 1, most = 0;
    for (const BackfillCurve& curve : study.random) {
      random += curve.AreaOfMap() / static_cast<double>(study.random.size());
      least = std::min(least, curve.AreaOfMap());
      most = std::max(most, curve.AreaOfMap());
    }
    gain += study.predictors[predictor].curve.AreaOfMap() - random;
    way += study.oracle.AreaOfMap() - random;
    spread += most - least;
  }
  if (way <= spread) return std::nullopt;
  return gain / way;
}

}  // namespace lightcone
