#include "geometry/lorentz.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lightcone::lorentz {
namespace {

double Dot(Vector x, Vector y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

std::vector<double> Scaled(Vector x, double factor) {
  std::vector<double> out(x.begin(), x.end());
  for (double& value : out) value *= factor;
  return out;
}

// sinh^2(kd/2) * 2 = (K/2) (|x - y|^2 - dt^2) with dt = <x - y, x + y> / (x_t + y_t).
double HalfChord(Vector x, Vector y, double curvature) {
  double gap_squared = 0, difference = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double gap = x[i] - y[i];
    gap_squared += gap * gap;
    difference += gap * (x[i] + y[i]);
  }
  const double dt = difference / (Time(x, curvature) + Time(y, curvature));
  return std::max(0.0, curvature / 2 * (gap_squared - dt * dt));
}

}  // namespace

double Norm(Vector x) { return std::sqrt(Dot(x, x)); }

double Time(Vector s, double curvature) { return std::sqrt(1.0 / curvature + Dot(s, s)); }

double SinhRatio(double x) {
  if (std::abs(x) < 1e-4) return 1.0 + x * x / 6.0 + x * x * x * x / 120.0;
  return std::sinh(x) / x;
}

double AsinhRatio(double x) {
  if (std::abs(x) < 1e-4) return 1.0 - x * x / 6.0 + 3.0 * x * x * x * x / 40.0;
  return std::asinh(x) / x;
}

std::vector<double> Exp0(Vector z, double curvature) { return Scaled(z, SinhRatio(std::sqrt(curvature) * Norm(z))); }

std::vector<double> Log0(Vector s, double curvature) { return Scaled(s, AsinhRatio(std::sqrt(curvature) * Norm(s))); }

double Radius(Vector s, double curvature) {
  const double k = std::sqrt(curvature);
  return std::asinh(k * Norm(s)) / k;
}

double Inner(Vector x, Vector y, double curvature) { return Dot(x, y) - Time(x, curvature) * Time(y, curvature); }

double SquaredLorentz(Vector x, Vector y, double curvature) { return 2.0 / curvature * HalfChord(x, y, curvature); }

double Geodesic(Vector x, Vector y, double curvature) {
  return 2.0 / std::sqrt(curvature) * std::asinh(std::sqrt(HalfChord(x, y, curvature) / 2.0));
}

double GeodesicFromPolar(double rx, double ry, double direction_gap_squared, double curvature) {
  const double k = std::sqrt(curvature);
  const double radial = std::sinh(k * (rx - ry) / 2.0);
  const double angular = std::sinh(k * rx) * std::sinh(k * ry) * direction_gap_squared / 4.0;
  return 2.0 / k * std::asinh(std::sqrt(radial * radial + angular));
}

std::vector<double> RescaleClip(Vector v, double scale, double zeta) {
  const double norm = scale * Norm(v);
  return Scaled(v, norm > zeta ? scale * zeta / norm : scale);
}

std::vector<double> RescaleClipVjp(Vector v, double scale, double zeta, Vector upstream) {
  const double v_norm = Norm(v);
  if (scale * v_norm <= zeta) return Scaled(upstream, scale);
  // z = zeta v/|v|: the Jacobian is (zeta/|v|)(I - v v^T/|v|^2), with no radial part.
  const double along = Dot(v, upstream) / (v_norm * v_norm);
  std::vector<double> out(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) out[i] = zeta / v_norm * (upstream[i] - along * v[i]);
  return out;
}

std::vector<double> Exp0Vjp(Vector z, double curvature, Vector upstream) {
  const double norm = Norm(z);
  const double x = std::sqrt(curvature) * norm;
  // s = z f(|z|), f = sinh(x)/x; the gradient is f u + z <z, u> f'(|z|)/|z|.
  const double f = SinhRatio(x);
  const double radial =
      x < 1e-2 ? curvature * (1.0 / 3.0 + x * x / 30.0 + x * x * x * x / 840.0) : (std::cosh(x) - f) / (norm * norm);
  const double along = radial * Dot(z, upstream);
  std::vector<double> out(z.size());
  for (std::size_t i = 0; i < z.size(); ++i) out[i] = f * upstream[i] + along * z[i];
  return out;
}

}  // namespace lightcone::lorentz
