// The hyperboloid of curvature -K in float64: the reference the kernels, the server's exact re-ranking and the golden
// vectors are compared with. A point h is kept as its space part s; its time is sqrt(1/K + |s|^2).
// Formulas of maps, clip and cone: docs/concepts/geometry.md. Threads: pure functions.
// Everywhere curvature > 0, and spans have one length.
#pragma once

#include <span>
#include <vector>

namespace lightcone::lorentz {

using Vector = std::span<const double>;

double Norm(Vector x);

// Time coordinate of the point with space part `s`.
double Time(Vector s, double curvature);

// sinh(x)/x and asinh(x)/x, exact at 0.
double SinhRatio(double x);
double AsinhRatio(double x);

// Space part of exp_0(z), and the tangent vector log_0(h).
std::vector<double> Exp0(Vector z, double curvature);
std::vector<double> Log0(Vector s, double curvature);

// Geodesic distance of h to the origin.
double Radius(Vector s, double curvature);

// <x, y>_L = <x_s, y_s> - x_t y_t.
double Inner(Vector x, Vector y, double curvature);

// Squared Lorentz distance -2/K - 2 <x, y>_L, computed without cancellation; >= 0.
double SquaredLorentz(Vector x, Vector y, double curvature);

// Geodesic distance from space parts by the half chord.
double Geodesic(Vector x, Vector y, double curvature);

// Geodesic distance of exp_0(rx * ux) and exp_0(ry * uy) from radii >= 0 and unit directions, whose squared
// difference |ux - uy|^2 is given: no cancellation at all. The direction of a zero radius does not matter.
double GeodesicFromPolar(double rx, double ry, double direction_gap_squared, double curvature);

// z * min(1, zeta/|z|) with z = v * scale (scale = 1/sqrt(d) for the paper's rescale, 1 for none).
std::vector<double> RescaleClip(Vector v, double scale, double zeta);

// Pulls the gradient `upstream` of RescaleClip's value back to v; no straight-through.
std::vector<double> RescaleClipVjp(Vector v, double scale, double zeta, Vector upstream);

inline constexpr double kConeEpsilon = 0.1;  // epsilon of the half aperture (HBCT, MERU)

// asin(min(1, 2 epsilon / (k |s|))), in (0, pi/2].
double HalfAperture(Vector s, double curvature, double epsilon = kConeEpsilon);

// Angle at h_o between the ray from the origin through h_o and the geodesic to h_n, in [0, pi] by atan2; 0 where
// undefined (h_o = 0 or h_n = h_o).
double ExteriorAngle(Vector s_o, Vector s_n, double curvature);

// max(0, ExteriorAngle - HalfAperture): 0 where h_n lies in the cone of h_o.
double Entailment(Vector s_o, Vector s_n, double curvature, double epsilon = kConeEpsilon);

// Whether h_n lies in the cone of h_o, without trigonometry (docs/internals/training-methods.md, Entailment).
bool InCone(Vector s_o, Vector s_n, double curvature, double epsilon = kConeEpsilon);

// Entailment with its gradients: by the space part of h_n (time following from it) and by the tangent vector z_n with
// h_n = exp_0(z_n). Zero vectors where the loss is 0.
struct EntailmentGradient {
  double loss = 0;
  std::vector<double> by_space_n;
  std::vector<double> by_z_n;
};
EntailmentGradient EntailmentWithGradient(Vector z_o, Vector z_n, double curvature, double epsilon = kConeEpsilon);

// Pulls a gradient by the space part of exp_0(z) back to z.
std::vector<double> Exp0Vjp(Vector z, double curvature, Vector upstream);

}  // namespace lightcone::lorentz
