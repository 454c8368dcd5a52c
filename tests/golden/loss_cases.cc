#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "geometry/lorentz.h"
#include "geometry/uncertainty.h"
#include "tests/golden/cases.h"
#include "tests/golden/loss_reference.h"

namespace lightcone::golden {
namespace {

double QOf(const Json& test, double radius, double curvature) {
  const std::string mode = test.at("q_mode");
  if (mode == "fixed") return test.at("q_fixed");
  if (mode == "uncertainty_ratio") return UncertaintyOfRadius(radius, curvature);
  if (mode == "uncertainty_eq10_last_line") return UncertaintyLastLine(radius, curvature);
  throw std::invalid_argument("unknown q_mode " + mode);
}

}  // namespace

void CheckRince(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const double curvature = in.at("K");
  const Matrix z_o = Rows(in.at("z_o"));
  const Matrix z_n = Rows(in.at("z_n"));
  for (const auto& [name, matrix] : expected.at("distance_matrix").items()) {
    NearRows("distance_matrix." + name, DistanceMatrix(ParseLossDistance(name), z_n, z_o, curvature), matrix, check);
  }
  for (std::size_t n = 0; n < expected.at("cases").size(); ++n) {
    const Json& test = expected.at("cases").at(n);
    const std::string at = "cases[" + std::to_string(n) + "]";
    std::vector<double> q;
    for (const auto& z : z_o) q.push_back(QOf(test, lorentz::Norm(z), curvature));
    check.Near(at + ".q", q, test.at("q"));
    const ContrastiveLoss loss = Rince(ParseLossDistance(test.at("distance").get<std::string>()), z_n, z_o, curvature,
                                       test.at("tau"), test.at("beta"), q);
    check.Near(at + ".loss_per_sample", loss.per_sample, test.at("loss_per_sample"));
    check.Near(at + ".loss_mean", loss.mean, test.at("loss_mean"));
    NearRows(at + ".grad_mean_wrt_z_n", loss.mean_by_z_n, test.at("grad_mean_wrt_z_n"), check);
  }
  for (std::size_t n = 0; n < expected.at("infonce").size(); ++n) {
    const Json& test = expected.at("infonce").at(n);
    const std::string at = "infonce[" + std::to_string(n) + "]";
    const ContrastiveLoss loss =
        InfoNce(ParseLossDistance(test.at("distance").get<std::string>()), z_n, z_o, curvature, test.at("tau"));
    check.Near(at + ".infonce_per_sample", loss.per_sample, test.at("infonce_per_sample"));
    check.Near(at + ".infonce_mean", loss.mean, test.at("infonce_mean"));
    NearRows(at + ".grad_infonce_mean_wrt_z_n", loss.mean_by_z_n, test.at("grad_infonce_mean_wrt_z_n"), check);
    for (const auto& [key, value] : test.items()) {
      constexpr std::string_view kLimit = "rince_q0_limit_mean_beta";
      if (!key.starts_with(kLimit)) continue;
      check.Near(at + "." + key, loss.mean + std::log(std::stod(key.substr(kLimit.size()))), value);
    }
  }
}

void CheckLorentzMlr(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const LorentzMlr loss =
      LorentzMlrLoss(Rows(in.at("z")), Doubles(in.at("a")), Rows(in.at("z_k")), Integers(in.at("y")), in.at("K"));
  NearRows("logits", loss.logits, expected.at("logits"), check);
  check.Near("ce_per_sample", loss.cross_entropy, expected.at("ce_per_sample"));
  check.Near("ce_mean", loss.mean, expected.at("ce_mean"));
  NearRows("grad_ce_mean_wrt_z", loss.mean_by_z, expected.at("grad_ce_mean_wrt_z"), check);
  check.Near("grad_ce_mean_wrt_a", loss.mean_by_a, expected.at("grad_ce_mean_wrt_a"));
  NearRows("grad_ce_mean_wrt_z_k", loss.mean_by_z_k, expected.at("grad_ce_mean_wrt_z_k"), check);
}

}  // namespace lightcone::golden
