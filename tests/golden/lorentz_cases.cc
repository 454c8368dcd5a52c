#include <algorithm>
#include <cmath>

#include "geometry/bound_query.h"
#include "geometry/kernels.h"
#include "geometry/lorentz.h"
#include "geometry/uncertainty.h"
#include "tests/golden/cases.h"

namespace lightcone::golden {
namespace {

std::string At(std::string_view what, std::size_t i) { return std::string(what) + "[" + std::to_string(i) + "]"; }

void CheckPoint(const std::string& at, const std::vector<double>& z, double curvature, const Json& expected,
                Checker& check) {
  const std::vector<double> s = lorentz::Exp0(z, curvature);
  const double radius = lorentz::Radius(s, curvature);
  check.Near(at + ".h_space", s, expected.at("h_space"));
  check.Near(at + ".h_time", lorentz::Time(s, curvature), expected.at("h_time"));
  check.Near(at + ".norm_h_space", lorentz::Norm(s), expected.at("norm_h_space"));
  check.Near(at + ".log_map0", lorentz::Log0(s, curvature), expected.at("log_map0"));
  check.Near(at + ".dist0", radius, expected.at("dist0"));
  check.Near(at + ".uncertainty_ratio", UncertaintyOfRadius(radius, curvature), expected.at("uncertainty_ratio"));
  check.Near(at + ".uncertainty_eq10_last_line", UncertaintyLastLine(radius, curvature),
             expected.at("uncertainty_eq10_last_line"));
  check.Near(at + ".uncertainty_true_poincare_radius", UncertaintyPoincare(radius, curvature),
             expected.at("uncertainty_true_poincare_radius"));
  const Space space{Metric::kLorentz, static_cast<int>(z.size()), curvature, 1.0};
  check.Near(at + ".UncertaintyOf", UncertaintyOf(space, Floats(z)), expected.at("uncertainty_ratio"));
  check.Near(at + ".RadiusOfUncertainty", RadiusOfUncertainty(UncertaintyOfRadius(radius, curvature), curvature),
             expected.at("dist0"), {1e-6, 1e-6});  // 1 - u loses digits near the origin
}

// float32 kernels and the bound query's exact distance for one pair.
void CheckPairAsServed(const std::string& at, const std::vector<double>& z_i, const std::vector<double>& z_j,
                       double curvature, const Json& expected, Checker& check) {
  const int d = static_cast<int>(z_i.size());
  const Space space{Metric::kLorentz, d, curvature, kScaledClipRadiusMax / std::sqrt(curvature)};
  const std::vector<float> query = Floats(z_i);
  const std::vector<float> row = Floats(z_j);
  const auto bound = BoundQuery::Make(space, space, query);
  check.True(at + " can be bound", bound.ok());
  if (!bound.ok()) return;
  check.Near(at + ".Distance", bound->Distance(row), expected.at("geodesic"));
  const RowFactors factors = FactorsOf(space, row);
  float score = 0;
  ScoreRows(*bound, row.data(), row.size(), &factors, 1, &score);
  check.Near(at + ".score within its bound", score, expected.at("lorentz_inner"),
             {bound->ScoreErrorMax(factors.bias) * (1 + 1e-9) + 1e-9, 1e-12});
  if (std::max(lorentz::Norm(z_i), lorentz::Norm(z_j)) > kFloat32RadiusMax) return;
  check.Near(at + ".score (float32)", score, expected.at("lorentz_inner"), kFloat32);
  const std::vector<float> s_i = Floats(lorentz::Exp0(z_i, curvature));
  const std::vector<float> s_j = Floats(lorentz::Exp0(z_j, curvature));
  float distance = 0;
  GeodesicRows(curvature, s_i.data(), s_i.size(), s_j.data(), s_j.size(), 1, &distance);
  check.Near(at + ".geodesic (float32)", distance, expected.at("geodesic"), kFloat32);
}

}  // namespace

void CheckLorentz(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected");
  const double curvature = in.at("K");
  const double epsilon = in.at("min_radius_eps");
  const Matrix z = Rows(in.at("z"));
  Matrix s;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const Json& point = expected.at("points").at(i);
    s.push_back(lorentz::Exp0(z[i], curvature));
    CheckPoint(At("points", i), z[i], curvature, point, check);
    for (const auto& [key, value] : point.items()) {
      if (!key.starts_with("half_aperture")) continue;
      check.Near(At("points", i) + "." + key, lorentz::HalfAperture(s[i], curvature, epsilon), value);
    }
  }
  for (std::size_t n = 0; n < expected.at("pairs").size(); ++n) {
    const Json& pair = expected.at("pairs").at(n);
    const std::size_t i = pair.at("i"), j = pair.at("j");
    const std::string at = At("pairs", n);
    check.Near(at + ".lorentz_inner", lorentz::Inner(s[i], s[j], curvature), pair.at("lorentz_inner"));
    check.Near(at + ".geodesic", lorentz::Geodesic(s[i], s[j], curvature), pair.at("geodesic"));
    check.Near(at + ".sq_lorentz", lorentz::SquaredLorentz(s[i], s[j], curvature), pair.at("sq_lorentz"));
    check.Near(at + ".ext_angle_i_j", lorentz::ExteriorAngle(s[i], s[j], curvature), pair.at("ext_angle_i_j"));
    const Json& entail = pair.at("entail_loss_i_j");
    check.Near(at + ".entail_loss_i_j", lorentz::Entailment(s[i], s[j], curvature, epsilon), entail);
    // On the rim of the cone rounding decides, so membership is asked only away from it.
    if (!entail.is_null() && (entail.get<double>() > 1e-6)) {
      check.True(at + " lies outside the cone", !lorentz::InCone(s[i], s[j], curvature, epsilon));
    } else if (!pair.at("ext_angle_i_j").is_null() &&
               pair.at("ext_angle_i_j").get<double>() + 1e-6 < lorentz::HalfAperture(s[i], curvature, epsilon)) {
      check.True(at + " lies in the cone", lorentz::InCone(s[i], s[j], curvature, epsilon));
    }
    CheckPairAsServed(at, z[i], z[j], curvature, pair, check);
  }
}

void CheckFloat32Geodesic(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& expected = file.at("expected").at("geodesic");
  const double curvature = in.at("K");
  const Matrix x = Rows(in.at("x_space"));
  const Matrix y = Rows(in.at("y_space"));
  for (std::int64_t target : KernelTargets()) {
    ForceKernelTarget(target);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::vector<float> query = Floats(x[i]);
      const std::vector<float> row = Floats(y[i]);
      float distance = 0;
      GeodesicRows(curvature, query.data(), query.size(), row.data(), row.size(), 1, &distance);
      check.Near(At("geodesic", i) + " on " + std::string(KernelTargetName(target)), distance, expected.at(i));
    }
  }
  ForceKernelTarget(0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    check.Near(At("geodesic", i) + " (float64)", lorentz::Geodesic(x[i], y[i], curvature), expected.at(i),
               {1e-15, 1e-12});
  }
}

void CheckRescaleClip(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Matrix v = Rows(in.at("v"));
  const Matrix upstream = Rows(in.at("upstream"));
  const double scale = 1.0 / std::sqrt(in.at("d").get<double>());
  for (const auto& [key, expected] : file.at("expected").items()) {
    check.True("key " + key + " starts with zeta", key.starts_with("zeta"));
    const double zeta = std::stod(key.substr(4));
    for (std::size_t i = 0; i < v.size(); ++i) {
      check.Near(At(key + ".z", i), lorentz::RescaleClip(v[i], scale, zeta), expected.at("z").at(i));
      // A norm at the threshold up to float32 rounding is a kink: two gradients are right.
      if (std::abs(scale * lorentz::Norm(v[i]) - zeta) < 1e-5) continue;
      check.Near(At(key + ".vjp_wrt_v", i), lorentz::RescaleClipVjp(v[i], scale, zeta, upstream[i]),
                 expected.at("vjp_wrt_v").at(i));
    }
  }
}

void CheckEntailment(const Json& file, Checker& check) {
  const Json& in = file.at("inputs");
  const Json& pairs = file.at("expected").at("pairs");
  const double curvature = in.at("K");
  const double epsilon = in.at("min_radius_eps");
  const Matrix z_o = Rows(in.at("z_o"));
  const Matrix z_n = Rows(in.at("z_n"));
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string at = At("pairs", i);
    const std::vector<double> s_o = lorentz::Exp0(z_o[i], curvature);
    const std::vector<double> s_n = lorentz::Exp0(z_n[i], curvature);
    check.Near(at + ".ext_angle", lorentz::ExteriorAngle(s_o, s_n, curvature), pairs[i].at("ext_angle"));
    check.Near(at + ".half_aperture", lorentz::HalfAperture(s_o, curvature, epsilon), pairs[i].at("half_aperture"));
    const auto gradient = lorentz::EntailmentWithGradient(z_o[i], z_n[i], curvature, epsilon);
    check.Near(at + ".loss", gradient.loss, pairs[i].at("loss"));
    check.Near(at + ".grad_h_n_space", gradient.by_space_n, pairs[i].at("grad_h_n_space"));
    check.Near(at + ".grad_z_n", gradient.by_z_n, pairs[i].at("grad_z_n"));
    sum += gradient.loss;
  }
  check.Near("mean_loss", sum / static_cast<double>(pairs.size()), file.at("expected").at("mean_loss"));
}

}  // namespace lightcone::golden
