#include "trainer/adapt/evaluate_adapter.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/exceptions.h"
#include "base/rng.h"
#include "base/status.h"
#include "stats/metrics.h"
#include "trainer/adapt/losses_torch.h"
#include "trainer/adapt/mixed_gallery_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

absl::Status CheckSide(const char* name, std::span<const float> z, const Space& space, size_t items) {
  LC_RETURN_IF_ERROR(CheckAdapterSpace(StrCat("test.", name, "_space"), space));
  const size_t d = static_cast<size_t>(space.dimension);
  if (z.size() != items * d) {
    return InvalidField(StrCat("test.", name, "_z"), StrCat(z.size(), " numbers"),
                        StrCat("exactly ", items * d, " (", items, " labels x ", d, ")"));
  }
  for (size_t i = 0; i < items; ++i) {
    LC_RETURN_IF_ERROR(CheckVector(space, z.subspan(i * d, d), StrCat("test.", name, "_z[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status CheckTest(const Adapter& adapter, const AdapterTestSet& test) {
  if (test.labels.size() < 2) {
    return InvalidField("test.labels", StrCat(test.labels.size(), " labels"), "at least 2");
  }
  LC_RETURN_IF_ERROR(CheckSide("old", test.old_z, test.old_space, test.labels.size()));
  LC_RETURN_IF_ERROR(CheckSide("new", test.new_z, test.new_space, test.labels.size()));
  const bool item = adapter.direction() == AdapterDirection::kItem;
  const Space& from = item ? test.old_space : test.new_space;
  const Space& to = item ? test.new_space : test.old_space;
  if (adapter.input_dimension() != from.dimension) {
    return InvalidField(
        "adapter.input_dimension", StrCat(adapter.input_dimension()),
        StrCat(from.dimension, ", as the ", item ? "old" : "new", " embeddings: it is an adapter of the ",
               AdapterDirectionName(adapter.direction()), " side"));
  }
  const Space& target = adapter.target();
  if (target.metric != to.metric || target.dimension != to.dimension) {
    return InvalidField("adapter.target", StrCat(MetricName(target.metric), " of dimension ", target.dimension),
                        StrCat(MetricName(to.metric), " of dimension ", to.dimension));
  }
  if (to.metric == Metric::kLorentz && target.curvature != to.curvature) {
    return InvalidField("adapter.target.curvature", StrCat(target.curvature), StrCat(to.curvature));
  }
  return absl::OkStatus();
}

RetrievalSpace Retrieval(const Space& space) {
  return {std::string(MetricName(space.metric)), space.curvature, space.dimension};
}

bool Comparable(const Space& a, const Space& b) {
  return a.metric == b.metric && a.dimension == b.dimension &&
         (a.metric != Metric::kLorentz || a.curvature == b.curvature);
}

MetricPoints Points(const Space& space, std::span<const float> z) {
  const int64_t n = static_cast<int64_t>(z.size()) / space.dimension;
  return LiftTo(space, torch::from_blob(const_cast<float*>(z.data()), {n, space.dimension}).to(torch::kFloat64));
}

CompatibilityGains PComOf(const RetrievalFigures& cross, const RetrievalFigures& old_old,
                          const RetrievalFigures& base) {
  return {PCom(cross.cmc1, old_old.cmc1, base.cmc1), PCom(cross.cmc5, old_old.cmc5, base.cmc5),
          PCom(cross.map, old_old.map, base.map)};
}

// Masks of items in random order: a larger share holds all items of a smaller one.
std::vector<std::vector<uint8_t>> BackfillMasks(size_t items, uint64_t seed) {
  std::vector<size_t> order(items);
  std::iota(order.begin(), order.end(), size_t{0});
  Rng rng(MixSeed({seed, 0xbacf111u}));
  rng.Shuffle(&order);
  std::vector<std::vector<uint8_t>> masks;
  for (const double share : kBackfillShares) {
    std::vector<uint8_t>& mask = masks.emplace_back(items, uint8_t{0});
    const size_t count = static_cast<size_t>(std::llround(share * static_cast<double>(items)));
    for (size_t i = 0; i < count; ++i) mask[order[i]] = 1;
  }
  return masks;
}

void AddMixed(const GalleryLeg& old_leg, const GalleryLeg& new_leg, const AdapterTestSet& test, uint64_t seed,
              AdapterEvaluation& out) {
  const std::vector<RetrievalFigures> figures =
      RankTwoLegs(old_leg, new_leg, test.labels, BackfillMasks(test.labels.size(), seed));
  double best_cmc1 = 0, best_map = 0;
  for (size_t i = 0; i < figures.size(); ++i) {
    out.mixed.push_back({kBackfillShares[i], figures[i]});
    best_cmc1 = std::max(best_cmc1, figures[i].cmc1);
    best_map = std::max(best_map, figures[i].map);
    out.dip_cmc1 = std::max(out.dip_cmc1, best_cmc1 - figures[i].cmc1);
    out.dip_map = std::max(out.dip_map, best_map - figures[i].map);
  }
}

void AddErrors(const Space& space, const MetricPoints& adapted, const MetricPoints& truth,
               const std::vector<float>& uncertainties, AdapterEvaluation& out) {
  const Tensor distances = MetricRowDistances(space, adapted, truth).contiguous();
  out.mean_error = distances.mean().item<double>();
  if (uncertainties.empty()) return;
  const std::vector<double> errors(distances.data_ptr<double>(), distances.data_ptr<double>() + distances.numel());
  std::vector<double> sorted = errors;
  std::sort(sorted.begin(), sorted.end());
  const double border = sorted[sorted.size() * 3 / 4];
  std::vector<uint8_t> worst;
  for (const double error : errors) worst.push_back(error >= border ? 1 : 0);
  out.error_auroc = Auroc(std::vector<double>(uncertainties.begin(), uncertainties.end()), worst);
}

absl::StatusOr<AdapterEvaluation> Evaluate(const Adapter& adapter, const AdapterTestSet& test,
                                           const AdapterEvaluationOptions& options) {
  torch::NoGradGuard no_grad;
  const bool item = adapter.direction() == AdapterDirection::kItem;
  const size_t items = test.labels.size();
  std::vector<float> carried(items * static_cast<size_t>(adapter.output_dimension()));
  std::vector<float> uncertainties(adapter.has_uncertainty() ? items : 0);
  adapter.Apply(item ? test.old_z : test.new_z, carried, uncertainties);

  AdapterEvaluation out;
  const LabelledEmbeddings old_side{test.old_z, test.labels, test.old_space.clip_radius},
      new_side{test.new_z, test.labels, test.new_space.clip_radius},
      carried_side{carried, test.labels, adapter.target().clip_radius};
  const RetrievalSpace old_space = Retrieval(test.old_space), new_space = Retrieval(test.new_space);
  LC_ASSIGN_OR_RETURN(out.old_old, EvaluateRetrieval(old_space, old_side, old_side, /*same_items=*/true));
  LC_ASSIGN_OR_RETURN(out.new_new, EvaluateRetrieval(new_space, new_side, new_side, true));
  if (Comparable(test.old_space, test.new_space)) {
    LC_ASSIGN_OR_RETURN(out.plain, EvaluateRetrieval(new_space, new_side, old_side, true));
  }
  LC_ASSIGN_OR_RETURN(out.adapted, item ? EvaluateRetrieval(new_space, new_side, carried_side, true)
                                        : EvaluateRetrieval(old_space, carried_side, old_side, true));
  out.base_given = options.base.has_value();
  out.base = options.base.value_or(out.new_new);
  if (out.plain.has_value()) out.p_com_plain = PComOf(*out.plain, out.old_old, out.base);
  out.p_com_adapted = PComOf(out.adapted, out.old_old, out.base);
  out.p_up = {PUp(out.new_new.cmc1, out.base.cmc1), PUp(out.new_new.cmc5, out.base.cmc5),
              PUp(out.new_new.map, out.base.map)};

  const MetricPoints adapted = Points(adapter.target(), carried);
  const MetricPoints old_points = Points(test.old_space, test.old_z), new_points = Points(test.new_space, test.new_z);
  AddErrors(adapter.target(), adapted, item ? new_points : old_points, uncertainties, out);
  if (options.mixed) {
    const GalleryLeg old_leg =
        item ? GalleryLeg{test.new_space, new_points, adapted} : GalleryLeg{test.old_space, adapted, old_points};
    AddMixed(old_leg, {test.new_space, new_points, new_points}, test, options.seed, out);
  }
  return out;
}

}  // namespace

absl::StatusOr<AdapterEvaluation> EvaluateAdapter(const Adapter& adapter, const AdapterTestSet& test,
                                                  const AdapterEvaluationOptions& options) {
  LC_RETURN_IF_ERROR(CheckTest(adapter, test));
  try {
    return Evaluate(adapter, test, options);
  } catch (...) {
    return Annotate(StatusOfException(), "evaluate adapter");
  }
}

}  // namespace lightcone
