#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "base/status.h"
#include "geometry/bound_query.h"
#include "geometry/kernels.h"
#include "geometry/lorentz.h"
#include "geometry/uncertainty.h"
#include "stats/metrics.h"
#include "tests/geometry/rank_distances.h"
#include "tests/golden/cases.h"

namespace lightcone::golden {
namespace {

std::vector<double> Flat(const Matrix& matrix) {
  std::vector<double> out;
  for (const auto& row : matrix) out.insert(out.end(), row.begin(), row.end());
  return out;
}

void CheckMetrics(const std::string& at, const Matrix& distances, const std::vector<std::int64_t>& query_labels,
                  const std::vector<std::int64_t>& gallery_labels, bool exclude_own, const Json& expected,
                  Checker& check) {
  const auto metrics = RankDistances(Flat(distances), query_labels, gallery_labels, exclude_own, {1, 5});
  if (!metrics.ok()) {
    check.True(at + ": " + MessageOf(metrics.status()), false);
    return;
  }
  check.Near(at + ".cmc1", metrics->cmc[0], expected.at("cmc1"));
  check.Near(at + ".cmc5", metrics->cmc[1], expected.at("cmc5"));
  check.Near(at + ".mAP", metrics->map, expected.at("mAP"));
  check.Near(at + ".valid_queries", static_cast<double>(metrics->valid_queries), expected.at("valid_queries"));
  const Json& ap = expected.at("ap_per_query");
  check.True(at + ".ap_per_query has one entry a query", ap.size() == metrics->ap.size());
  for (std::size_t i = 0; i < std::min(ap.size(), metrics->ap.size()); ++i) {
    const std::string name = at + ".ap_per_query[" + std::to_string(i) + "]";
    check.True(name + " is defined where expected", ap[i].is_null() == !metrics->ap[i].has_value());
    check.Near(name, metrics->ap[i].value_or(0), ap[i]);
  }
}

Space SpaceFor(const Matrix& z, double curvature) {
  return {Metric::kLorentz, static_cast<int>(z.at(0).size()), curvature, kScaledClipRadiusMax / std::sqrt(curvature)};
}

BoundQuery Bind(const Space& space, const std::vector<double>& z) {
  auto query = BoundQuery::Make(space, space, Floats(z));
  if (!query.ok()) throw std::runtime_error(MessageOf(query.status()));
  return *std::move(query);
}

Matrix ServedDistances(const Matrix& queries, const Matrix& gallery, double curvature) {
  const Space space = SpaceFor(gallery, curvature);
  Matrix out;
  for (const auto& z : queries) {
    const BoundQuery query = Bind(space, z);
    out.emplace_back();
    for (const auto& item : gallery) out.back().push_back(query.Distance(Floats(item)));
  }
  return out;
}

std::vector<std::size_t> Order(const std::vector<double>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return keys[x] < keys[y]; });
  return order;
}

}  // namespace

void CheckRankingMetrics(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const Json& self = in.at("self_excluded");
  const auto labels = Integers(self.at("labels"));
  CheckMetrics("self_excluded", Rows(self.at("dist")), labels, labels, true, expected.at("self_excluded"), check);
  const Json& separate = in.at("separate");
  CheckMetrics("separate", Rows(separate.at("dist")), Integers(separate.at("query_labels")),
               Integers(separate.at("gallery_labels")), false, expected.at("separate"), check);

  const Json& hyperbolic = in.at("hyperbolic");
  const double curvature = hyperbolic.at("K");
  const Matrix z_old = Rows(hyperbolic.at("z_old"));
  const Matrix z_new = Rows(hyperbolic.at("z_new"));
  const auto classes = Integers(hyperbolic.at("labels"));
  const Json& truths = expected.at("hyperbolic");
  CheckMetrics("old_old", ServedDistances(z_old, z_old, curvature), classes, classes, true, truths.at("old_old"),
               check);
  CheckMetrics("new_new", ServedDistances(z_new, z_new, curvature), classes, classes, true, truths.at("new_new"),
               check);
  CheckMetrics("new_old", ServedDistances(z_new, z_old, curvature), classes, classes, true, truths.at("new_old"),
               check);

  const Json& ties = in.at("ties");
  const auto tied = RankDistances(Flat(Rows(ties.at("dist"))), Integers(ties.at("query_labels")),
                                  Integers(ties.at("gallery_labels")), false, {1});
  check.True("ties can be ranked", tied.ok());
  if (tied.ok()) check.Near("ties.ap_stable_index", tied->map, expected.at("ties").at("ap_stable_index"));
}

void CheckPComPUp(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  for (std::size_t i = 0; i < in.at("cells").size(); ++i) {
    const Json& cell = in.at("cells").at(i);
    const Json& truth = expected.at("cells").at(i);
    const std::string at = "cells[" + std::to_string(i) + "]";
    check.Near(at + ".p_up", PUp(cell.at("self"), cell.at("base_new")).value(), truth.at("p_up"));
    check.Near(at + ".p_com", PCom(cell.at("cross"), cell.at("old"), cell.at("base_new")).value(), truth.at("p_com"));
  }
  // Query model i on gallery j < i: relative to gallery j's own figure and to model i trained alone.
  const Matrix m = Rows(in.at("sequential").at("M_row_query_col_gallery"));
  const std::vector<double> base = Doubles(in.at("sequential").at("base"));
  for (std::size_t i = 0; i < m.size(); ++i) {
    for (std::size_t j = 0; j < m.size(); ++j) {
      const Json& truth = expected.at("sequential_p_com").at(i).at(j);
      if (truth.is_null()) continue;
      check.Near("sequential_p_com[" + std::to_string(i) + "][" + std::to_string(j) + "]",
                 PCom(m[i][j], m[j][j], base[i]).value(), truth);
    }
  }
}

void CheckServerRanking(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const double curvature = in.at("K");
  const Matrix gallery = Rows(in.at("z_gallery"));
  const Matrix queries = Rows(in.at("z_query"));
  const Space space = SpaceFor(gallery, curvature);
  const Matrix distances = ServedDistances(queries, gallery, curvature);
  for (std::size_t q = 0; q < queries.size(); ++q) {
    const Json& truth = expected.at("queries").at(q);
    const std::string at = "queries[" + std::to_string(q) + "]";
    const std::vector<std::size_t> order = Order(distances[q]);
    check.True(at + ".order", order == truth.at("order").get<std::vector<std::size_t>>());
    const BoundQuery query = Bind(space, queries[q]);
    for (std::size_t rank = 0; rank < truth.at("geodesic_top10").size(); ++rank) {
      const std::vector<double>& item = gallery[order[rank]];
      const std::string here = at + ".rank " + std::to_string(rank);
      check.Near(here + " geodesic", distances[q][order[rank]], truth.at("geodesic_top10").at(rank));
      const double inner =
          lorentz::Inner(lorentz::Exp0(queries[q], curvature), lorentz::Exp0(item, curvature), curvature);
      check.Near(here + " inner product", inner, truth.at("neg_time_ip_top10").at(rank));
      check.Near(here + " radial lower bound", std::abs(lorentz::Norm(queries[q]) - lorentz::Norm(item)),
                 truth.at("radial_lower_bound_top10").at(rank));
      const std::vector<float> row = Floats(item);
      const RowFactors factors = FactorsOf(space, row);
      float score = 0;
      ScoreRows(query, row.data(), row.size(), &factors, 1, &score);
      check.Near(here + " score (float32)", score, truth.at("neg_time_ip_top10").at(rank), kFloat32);
    }
  }
  std::vector<double> uncertainty, descending;
  for (const auto& item : gallery) {
    uncertainty.push_back(UncertaintyOf(space, Floats(item)));
    descending.push_back(-uncertainty.back());
  }
  check.Near("uncertainty", uncertainty, expected.at("uncertainty"));
  check.True("backfill_order_by_uncertainty_desc",
             Order(descending) == expected.at("backfill_order_by_uncertainty_desc").get<std::vector<std::size_t>>());
}

}  // namespace lightcone::golden
