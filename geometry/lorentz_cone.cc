// Entailment cones: exterior angle, half aperture, membership, gradient (docs/internals/training-methods.md,
// Entailment).
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "geometry/lorentz.h"

namespace lightcone::lorentz {
namespace {

// ext = atan2(y, x). `rest` = s_n - p u, the part of s_n across the direction u of s_o.
struct ConeParts {
  double x = 0, y = 0;
  double norm_o = 0, time_o = 0, time_n = 0;
  std::vector<double> direction, rest;
};

ConeParts PartsOf(Vector s_o, Vector s_n, double curvature) {
  ConeParts parts;
  parts.norm_o = Norm(s_o);
  parts.time_o = Time(s_o, curvature);
  parts.time_n = Time(s_n, curvature);
  parts.direction.assign(s_o.begin(), s_o.end());
  parts.rest.assign(s_n.begin(), s_n.end());
  if (parts.norm_o == 0) return parts;  // undefined: x = y = 0
  double along = 0;
  for (std::size_t i = 0; i < s_o.size(); ++i) {
    parts.direction[i] /= parts.norm_o;
    along += s_n[i] * parts.direction[i];
  }
  for (std::size_t i = 0; i < s_o.size(); ++i) parts.rest[i] -= along * parts.direction[i];
  parts.y = Norm(parts.rest);
  parts.x = std::sqrt(curvature) * (parts.time_o * along - parts.norm_o * parts.time_n);
  return parts;
}

double SineOfAperture(double norm_o, double curvature, double epsilon) {
  const double scaled = std::sqrt(curvature) * norm_o;
  return scaled <= 2.0 * epsilon ? 1.0 : 2.0 * epsilon / scaled;
}

bool Same(Vector x, Vector y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); }

}  // namespace

double HalfAperture(Vector s, double curvature, double epsilon) {
  return std::asin(SineOfAperture(Norm(s), curvature, epsilon));
}

double ExteriorAngle(Vector s_o, Vector s_n, double curvature) {
  if (Same(s_o, s_n)) return 0;
  const ConeParts parts = PartsOf(s_o, s_n, curvature);
  return std::atan2(parts.y, parts.x);
}

double Entailment(Vector s_o, Vector s_n, double curvature, double epsilon) {
  return std::max(0.0, ExteriorAngle(s_o, s_n, curvature) - HalfAperture(s_o, curvature, epsilon));
}

bool InCone(Vector s_o, Vector s_n, double curvature, double epsilon) {
  if (Same(s_o, s_n)) return true;
  const ConeParts parts = PartsOf(s_o, s_n, curvature);
  const double sine = SineOfAperture(parts.norm_o, curvature, epsilon);
  return parts.x >= 0 && parts.y * std::sqrt(1.0 - sine * sine) <= parts.x * sine;
}

EntailmentGradient EntailmentWithGradient(Vector z_o, Vector z_n, double curvature, double epsilon) {
  const std::vector<double> s_o = Exp0(z_o, curvature);
  const std::vector<double> s_n = Exp0(z_n, curvature);
  EntailmentGradient out;
  out.loss = Entailment(s_o, s_n, curvature, epsilon);
  out.by_space_n.assign(s_n.size(), 0.0);
  if (out.loss > 0) {
    const ConeParts parts = PartsOf(s_o, s_n, curvature);
    const double k = std::sqrt(curvature);
    const double radius_squared = parts.x * parts.x + parts.y * parts.y;
    for (std::size_t i = 0; i < s_n.size(); ++i) {
      // d atan2(y, x) = (x dy - y dx) / (x^2 + y^2); at y = 0 the kink's gradient is taken as 0.
      const double dy = parts.y > 0 ? parts.rest[i] / parts.y : 0.0;
      const double dx = k * (parts.time_o * parts.direction[i] - parts.norm_o * s_n[i] / parts.time_n);
      out.by_space_n[i] = (parts.x * dy - parts.y * dx) / radius_squared;
    }
  }
  out.by_z_n = Exp0Vjp(z_n, curvature, out.by_space_n);
  return out;
}

}  // namespace lightcone::lorentz
