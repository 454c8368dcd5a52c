#include "research/uncertainty/study.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/rng.h"
#include "base/status.h"
#include "research/uncertainty/move_gains.h"
#include "stats/metrics.h"
#include "trainer/adapt/mixed_gallery_torch.h"
#include "trainer/data/parallel.h"
#include "trainer/uncertainty/failure_head.h"

namespace lightcone {
namespace {

constexpr uint64_t kOrderStream = 0x0bdeu;
constexpr int64_t kGainRows = 256;

using Order = std::vector<size_t>;

Order RandomOrder(size_t n, Rng* rng) {
  Order order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  rng->Shuffle(&order);
  return order;
}

// Equal scores stay in the order of `ties`: a gallery is mostly sorted by class, which its order must not tell.
Order WorstFirst(const Scores& scores, Order ties) {
  std::stable_sort(ties.begin(), ties.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return ties;
}

MetricPoints PointsOf(const RetrievalSpace& space, const LabelledEmbeddings& side) {
  const int64_t n = static_cast<int64_t>(side.labels.size());
  const torch::Tensor z = torch::from_blob(const_cast<float*>(side.z.data()), {n, space.dimension});
  return LiftTo({Metric::kLorentz, space.dimension, space.curvature, side.clip_radius}, z.to(torch::kFloat64));
}

// Both models' points lie on one hyperboloid, whatever their clips.
Space SharedSpace(const StudyMaterial& m) {
  return {Metric::kLorentz, m.old.space.dimension, m.old.space.curvature, m.next.clip_radius};
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
  const Space space = SharedSpace(m);
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

std::optional<double> AurocAmong(const Scores& scores, const Failures& failures) {
  std::vector<double> kept;
  std::vector<uint8_t> kept_wrong;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (failures.findable[i] == 0) continue;
    kept.push_back(scores[i]);
    kept_wrong.push_back(failures.wrong[i]);
  }
  return Auroc(kept, kept_wrong);
}

// By how much the mean average precision of all queries in the old gallery grows when the item alone is embedded anew:
// what the oracle knows.
Scores Gains(const StudyMaterial& m) {
  const int64_t n = std::ssize(m.next.labels);
  const MetricPoints next = PointsOf(m.old.space, m.next), old = PointsOf(m.old.space, m.old.gallery);
  const Space space = SharedSpace(m);
  Scores gains(static_cast<size_t>(n), 0.0);
  for (int64_t begin = 0; begin < n; begin += kGainRows) {
    const int64_t rows = std::min(kGainRows, n - begin);
    const MetricPoints queries{next.space.narrow(0, begin, rows), next.time.narrow(0, begin, rows)};
    const torch::Tensor before = MetricDistances(space, queries, old).contiguous();
    const torch::Tensor after = MetricDistances(space, queries, next).contiguous();
    std::vector<std::vector<double>> of(static_cast<size_t>(rows));
    ParallelFor(rows, [&](int64_t i) {
      const size_t query = static_cast<size_t>(begin + i), count = static_cast<size_t>(n);
      std::vector<uint8_t> relevant(count);
      for (size_t j = 0; j < count; ++j) relevant[j] = m.next.labels[j] == m.next.labels[query];
      of[static_cast<size_t>(i)] = MoveGains({before.data_ptr<double>() + i * n, count},
                                             {after.data_ptr<double>() + i * n, count}, relevant, query);
    });
    for (const std::vector<double>& row : of) {
      for (size_t j = 0; j < row.size(); ++j) gains[j] += row[j];
    }
  }
  return gains;
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
  LC_ASSIGN_OR_RETURN(const std::vector<Scores> scores, PredictorScores(m.old));
  LC_RETURN_IF_ERROR(CheckStop(stop));
  LC_ASSIGN_OR_RETURN(const Failures failures, FailuresOf(m.old.space, m.next, m.old.gallery));
  torch::NoGradGuard no_grad;
  UncertaintyStudy study;
  const size_t items = failures.wrong.size();
  study.items = static_cast<int64_t>(items);
  for (size_t i = 0; i < items; ++i) {
    study.items_left_out += failures.findable[i] == 0;
    study.items_wrong += failures.findable[i] != 0 && failures.wrong[i] != 0;
  }
  Rng rng(MixSeed({seed, kOrderStream}));
  std::vector<Order> orders;
  for (int i = 0; i < kRandomOrders; ++i) orders.push_back(RandomOrder(items, &rng));
  const Order ties = RandomOrder(items, &rng);
  orders.push_back(WorstFirst(Gains(m), ties));
  for (const Scores& of : scores) orders.push_back(WorstFirst(of, ties));
  std::vector<BackfillCurve> curves = Curves(m, orders);
  LC_RETURN_IF_ERROR(CheckStop(stop));
  study.random.assign(curves.begin(), curves.begin() + kRandomOrders);
  study.oracle = std::move(curves[kRandomOrders]);
  for (size_t i = 0; i < scores.size(); ++i) {
    study.predictors.push_back({AurocAmong(scores[i], failures), std::move(curves[kRandomOrders + 1 + i])});
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
