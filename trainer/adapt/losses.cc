#include <algorithm>
#include <cmath>

#include "trainer/adapt/losses_torch.h"
#include "trainer/losses/lorentz_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

// A logit without weight in a softmax. Its product with a probability of 0 is 0, unlike that of -inf.
constexpr double kNoLogit = -1e9;

constexpr double kScaledClipRadiusOfFloats = 4;  // largest k zeta for points in float32

MetricPoints First(const MetricPoints& points, int64_t n) {
  return {points.space.narrow(0, 0, n), points.time.defined() ? points.time.narrow(0, 0, n) : Tensor()};
}

}  // namespace

MetricPoints LiftTo(const Space& space, const Tensor& z) {
  if (space.metric == Metric::kLorentz) {
    const bool far = std::sqrt(space.curvature) * space.clip_radius > kScaledClipRadiusOfFloats;
    const LorentzPoints points =
        ExpOrigin(ClipNorm(far ? z.to(torch::kFloat64) : z, space.clip_radius), space.curvature);
    return {points.space, points.time};
  }
  const Tensor square = (z * z).sum(1, /*keepdim=*/true);
  return {z / torch::sqrt(torch::clamp_min(square, 1e-30)), Tensor()};
}

Tensor MetricDistances(const Space& space, const MetricPoints& a, const MetricPoints& b) {
  if (space.metric == Metric::kLorentz) {
    return DistanceMatrix({a.space, a.time}, {b.space, b.time}, space.curvature, LossDistance::kGeodesic);
  }
  return 1.0 - torch::matmul(a.space, b.space.t());
}

Tensor MetricRowDistances(const Space& space, const MetricPoints& a, const MetricPoints& b) {
  if (space.metric != Metric::kLorentz) return 1.0 - (a.space * b.space).sum(1);
  const double k = std::sqrt(space.curvature);
  const Tensor gap = a.space - b.space;
  const Tensor time_gap = (gap * (a.space + b.space)).sum(1) / (a.time + b.time);
  const Tensor chord2 = (gap * gap).sum(1) - time_gap * time_gap;
  // The root has no slope at 0; the floor is far below what float32 points can tell apart.
  const double floor = (chord2.scalar_type() == torch::kFloat64 ? 1e-24 : 1e-12) * std::max(1.0, 1.0 / space.curvature);
  return torch::asinh(torch::sqrt(torch::clamp_min(chord2, floor)) * (0.5 * k)) * (2.0 / k);
}

// `student` [q, m]: distances of a search, query i to bank row j.
Tensor AdaptObjective::BankTerms(const Tensor& student, const AdaptBatch& batch, const MetricPoints& targets) const {
  const int64_t q = batch.queries, m = batch.source.size(0);
  const Tensor own = torch::arange(q).unsqueeze(1) == torch::arange(m).unsqueeze(0);
  const Tensor logits = student * (-1.0 / temperature_);
  Tensor item = own;  // rows of the query's item, whose views are no neighbours
  if (batch.items.defined()) item = batch.items.narrow(0, 0, q).unsqueeze(1) == batch.items.unsqueeze(0);
  Tensor same = item;  // rows of the query's class, with its own
  if (batch.labels.defined()) same = batch.labels.narrow(0, 0, q).unsqueeze(1) == batch.labels.unsqueeze(0);
  Tensor sum = torch::zeros({}, student.options());
  if (loss_.contra > 0) {
    const Tensor kept = logits.masked_fill(torch::logical_and(same, torch::logical_not(own)), kNoLogit);
    sum = sum - loss_.contra * torch::log_softmax(kept, 1).diagonal().mean();
  }
  if (loss_.rel == 0 && loss_.sup == 0) return sum;
  const Tensor log_neighbours = torch::log_softmax(logits.masked_fill(item, kNoLogit), 1);
  if (loss_.rel > 0) {
    Tensor teacher;
    {
      torch::NoGradGuard no_grad;
      // The newer model's own neighbours: targets of an item adapter, sources of a query adapter.
      const bool of_items = direction_ == AdapterDirection::kItem;
      const Space& space = of_items ? target_ : source_;
      const MetricPoints newer = of_items ? targets : LiftTo(source_, batch.source);
      const Tensor distances = MetricDistances(space, First(newer, q), newer);
      teacher = torch::softmax((distances * (-1.0 / temperature_)).masked_fill(item, kNoLogit), 1);
    }
    sum = sum - loss_.rel * (teacher * log_neighbours).sum(1).mean();
  }
  if (loss_.sup > 0) {
    const Tensor positive = torch::logical_and(same, torch::logical_not(item)).to(student.scalar_type());
    const Tensor count = positive.sum(1);
    const Tensor mean = (positive * log_neighbours).sum(1) / torch::clamp_min(count, 1.0);
    const Tensor queries = torch::clamp_min((count > 0).to(student.scalar_type()).sum(), 1.0);
    sum = sum - loss_.sup * mean.sum() / queries;
  }
  return sum;
}

Tensor AdaptObjective::Sum(const MetricPoints& adapted, const AdaptBatch& batch) const {
  const MetricPoints targets = LiftTo(target_, batch.target);
  const int64_t rows = adapted.space.size(0);
  Tensor sum = torch::zeros({}, adapted.space.options());
  if (loss_.reg > 0) sum = sum + loss_.reg * MetricRowDistances(target_, adapted, First(targets, rows)).mean();
  if (!loss_.needs_bank()) return sum;
  const Tensor student = direction_ == AdapterDirection::kItem
                             ? MetricDistances(target_, First(targets, batch.queries), adapted)
                             : MetricDistances(target_, adapted, targets);
  return sum + BankTerms(student, batch, targets);
}

}  // namespace lightcone
