#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "tests/golden/cases.h"
#include "tests/golden/method_reference.h"

namespace lightcone::golden {
namespace {

void SameFlags(const std::string& what, const std::vector<bool>& actual, const Json& expected, Checker& check) {
  check.True(what + " as expected", Json(actual) == expected);
}

void CheckDenoise(const Json& in, const Json& expected, Checker& check) {
  const Matrix features = Rows(in.at("features"));
  const std::vector<std::int64_t> labels = Integers(in.at("labels"));
  const std::int64_t tenths = std::llround(in.at("T").get<double>() * 10);
  const Denoised out = Denoise(features, labels, tenths);
  check.Near("column_norms", out.column_norms, expected.at("column_norms"));
  check.Near("distance_to_class_mean", out.distance, expected.at("distance_to_class_mean"));
  SameFlags("keep", out.keep, expected.at("keep"), check);
  std::vector<double> kept(expected.at("kept_per_class").size(), 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) kept.at(static_cast<std::size_t>(labels[i])) += out.keep[i];
  check.Near("kept_per_class", kept, expected.at("kept_per_class"));
  Matrix shuffled;
  std::vector<std::int64_t> shuffled_labels;
  for (std::int64_t row : Integers(in.at("shuffled_order"))) {
    shuffled.push_back(features.at(static_cast<std::size_t>(row)));
    shuffled_labels.push_back(labels.at(static_cast<std::size_t>(row)));
  }
  SameFlags("keep_after_shuffle", Denoise(shuffled, shuffled_labels, tenths).keep, expected.at("keep_after_shuffle"),
            check);
}

void CheckMix(const Json& in, const Json& expected, Checker& check) {
  Matrix rows = Rows(in.at("new_features_raw"));
  const Matrix old = Rows(in.at("old_features_raw"));
  const std::vector<std::int64_t> replaced = Integers(in.at("replaced_positions"));
  const double share = in.at("alpha").get<double>() * in.at("B").get<double>();
  check.Near("n_replace", std::floor(share + 1e-9), expected.at("n_replace"));
  check.Near("number of replaced_positions", static_cast<double>(replaced.size()), expected.at("n_replace"));
  std::vector<bool> flows(rows.size(), true);
  for (std::int64_t position : replaced) {
    const std::size_t i = static_cast<std::size_t>(position);
    check.True("a replaced row was kept", in.at("old_keep").at(i).get<bool>());
    rows.at(i) = Unit(old.at(i));
    flows.at(i) = false;
  }
  for (auto& row : rows) row = Unit(row);
  NearRows("mixed_normalised", rows, expected.at("mixed_normalised"), check);
  SameFlags("grad_flows_to_new", flows, expected.at("grad_flows_to_new"), check);
}

}  // namespace

void CheckMixbct(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  if (in.contains("features")) return CheckDenoise(in, file.at("expected"), check);
  CheckMix(in, file.at("expected"), check);
}

void CheckBt2(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const Matrix x1 = Rows(in.at("X1_lower")), x2 = Rows(in.at("X2_lower"));
  const Matrix b1 = OrthogonalByExponential(x1), b2 = OrthogonalByExponential(x2);
  NearRows("B1_expm", b1, expected.at("B1_expm"), check);
  NearRows("B2_expm", b2, expected.at("B2_expm"), check);
  NearRows("B1_cayley", OrthogonalByCayley(x1), expected.at("B1_cayley"), check);
  NearRows("B2_cayley", OrthogonalByCayley(x2), expected.at("B2_cayley"), check);
  const Matrix old = Rows(in.at("phi_old"));
  Matrix fresh, new_new, new_old;
  for (const auto& phi1 : Rows(in.at("phi1"))) {
    const Json& row = expected.at("rows").at(fresh.size());
    const std::string at = "rows[" + std::to_string(fresh.size()) + "].";
    const Bt2Row out = Bt2Transform(phi1, b1, b2, Rows(in.at("f_weight")), Doubles(in.at("f_bias")), in.at("C"));
    check.Near(at + "phi2", out.phi2, row.at("phi2"));
    check.Near(at + "phi3", out.phi3, row.at("phi3"));
    check.Near(at + "phi4", out.phi4, row.at("phi4"));
    check.Near(at + "phi5", out.phi5, row.at("phi5"));
    check.Near(at + "phi_new", out.phi_new, row.at("phi_new"));
    check.Near(at + "norm_phi_new_sq", Dot(out.phi_new, out.phi_new), row.at("norm_phi_new_sq"));
    fresh.push_back(out.phi_new);
  }
  for (const auto& a : fresh) {
    new_new.emplace_back();
    new_old.emplace_back();
    for (const auto& b : fresh) new_new.back().push_back(Dot(a, std::span(b).first(a.size())));
    for (const auto& b : old) new_old.back().push_back(Dot(std::span(a).first(b.size()), b));
  }
  NearRows("new_new_inner", new_new, expected.at("new_new_inner"), check);
  NearRows("new_old_inner_truncated", new_old, expected.at("new_old_inner_truncated"), check);
}

void CheckHypMix(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const double curvature = in.at("c");
  const Matrix x0 = Rows(in.at("x0_raw")), x1 = Rows(in.at("x1_raw"));
  Matrix distances;
  for (const auto& x : x0) {
    distances.emplace_back();
    for (const auto& y : x1) distances.back().push_back(BallDistance(Unit(x), Unit(y), curvature));
  }
  for (const auto& [key, value] : file.at("expected").items()) {
    double tau_e = 0, tau_h = 0, lambda = 0;
    if (key == "D_hyp_01") {
      NearRows(key, distances, value, check);
    } else if (std::sscanf(key.c_str(), "loss_te%lf_th%lf_lam%lf", &tau_e, &tau_h, &lambda) == 3) {
      check.Near(key, HypMix(x0, x1, curvature, tau_e, tau_h, lambda), value);
    } else {
      check.True("this check knows what " + key + " is", false);
    }
  }
}

}  // namespace lightcone::golden
