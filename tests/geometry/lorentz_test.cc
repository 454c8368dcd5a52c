// Properties of the float64 reference that hold for any input; its values are checked by golden_test.
#include "geometry/lorentz.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone::lorentz {
namespace {

using Doubles = std::vector<double>;

Doubles RandomTangent(std::mt19937_64& random, int dimension, double norm) {
  const auto z = test::RandomVector(random, dimension, norm);
  return Doubles(z.begin(), z.end());
}

TEST(Lorentz, LogMapUndoesTheExponentialMap) {
  std::mt19937_64 random(21);
  for (double curvature : {0.1, 1.0, 1.5}) {
    for (double norm : {0.0, 1e-7, 1e-4, 0.5, 3.0}) {
      const Doubles z = RandomTangent(random, 5, norm);
      const Doubles back = Log0(Exp0(z, curvature), curvature);
      for (int i = 0; i < 5; ++i) EXPECT_NEAR(back[i], z[i], 1e-13 * (1 + norm));
      EXPECT_NEAR(Radius(Exp0(z, curvature), curvature), Norm(z), 1e-12);
    }
  }
}

TEST(Lorentz, TheTwoFormsOfTheGeodesicAgree) {
  std::mt19937_64 random(22);
  for (double curvature : {0.1, 1.0, 1.5}) {
    for (int trial = 0; trial < 100; ++trial) {
      const Doubles x = RandomTangent(random, 4, 0.1 + 0.02 * trial), y = RandomTangent(random, 4, 1.0);
      double gap = 0;
      for (int i = 0; i < 4; ++i) gap += std::pow(x[i] / Norm(x) - y[i] / Norm(y), 2);
      EXPECT_NEAR(Geodesic(Exp0(x, curvature), Exp0(y, curvature), curvature),
                  GeodesicFromPolar(Norm(x), Norm(y), gap, curvature), 1e-11);
    }
  }
}

TEST(Lorentz, SquaredDistanceIsAffineInTheInnerProduct) {
  std::mt19937_64 random(23);
  const Doubles x = Exp0(RandomTangent(random, 4, 1.0), 0.5), y = Exp0(RandomTangent(random, 4, 0.7), 0.5);
  EXPECT_NEAR(SquaredLorentz(x, y, 0.5), -2 / 0.5 - 2 * Inner(x, y, 0.5), 1e-12);
  EXPECT_NEAR(Inner(x, x, 0.5), -2.0, 1e-12) << "-1/K for a point of the hyperboloid";
}

TEST(Lorentz, ClipKeepsShortVectorsAndHasNoRadialGradientOnLongOnes) {
  const Doubles small = {0.3, 0.4}, large = {3, 4};
  EXPECT_EQ(RescaleClip(small, 1.0, 1.0), small);
  EXPECT_NEAR(Norm(RescaleClip(large, 1.0, 1.2)), 1.2, 1e-15);
  for (double g : RescaleClipVjp(large, 1.0, 1.2, large)) EXPECT_NEAR(g, 0.0, 1e-15);
  EXPECT_EQ(RescaleClipVjp(Doubles{0, 0}, 0.5, 1.0, Doubles{1, 2}), (Doubles{0.5, 1.0})) << "finite at zero";
}

TEST(Lorentz, ConeMembershipAgreesWithTheAngles) {
  std::mt19937_64 random(24);
  int inside = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const double curvature = trial % 2 ? 1.0 : 0.4;
    const Doubles o = RandomTangent(random, 2, 0.05 + 0.001 * (trial % 900));
    const Doubles n = RandomTangent(random, 2, 1.2);
    const Doubles s_o = Exp0(o, curvature), s_n = Exp0(n, curvature);
    const double excess = ExteriorAngle(s_o, s_n, curvature) - HalfAperture(s_o, curvature);
    if (std::abs(excess) < 1e-9) continue;
    EXPECT_EQ(InCone(s_o, s_n, curvature), excess < 0);
    EXPECT_EQ(Entailment(s_o, s_n, curvature) == 0, excess < 0);
    inside += excess < 0;
  }
  EXPECT_GT(inside, 100);
}

TEST(Lorentz, ConesAreDefinedWhereTheFormulasAreNot) {
  const Doubles zero = {0, 0}, x = {0.5, 0.1};
  EXPECT_EQ(ExteriorAngle(zero, x, 1.0), 0.0);
  EXPECT_EQ(ExteriorAngle(x, x, 1.0), 0.0);
  EXPECT_TRUE(InCone(zero, x, 1.0));
  EXPECT_TRUE(InCone(x, x, 1.0));
  const Doubles half = {0.25, 0.05};
  EXPECT_NEAR(ExteriorAngle(x, half, 1.0), 3.14159265358979, 1e-6) << "nearer the origin on the same ray";
  const auto gradient = EntailmentWithGradient(zero, x, 1.0);
  EXPECT_EQ(gradient.loss, 0.0);
  EXPECT_EQ(gradient.by_z_n, zero);
}

TEST(Lorentz, EntailmentGradientIsTheSlopeOfTheLoss) {
  const Doubles o = {0.7, 0.2, -0.1};
  Doubles n = {0.3, 0.9, 0.4};
  const auto gradient = EntailmentWithGradient(o, n, 0.7);
  ASSERT_GT(gradient.loss, 0.1);
  for (int i = 0; i < 3; ++i) {
    constexpr double kStep = 1e-6;
    const double old = n[i];
    n[i] = old + kStep;
    const double up = EntailmentWithGradient(o, n, 0.7).loss;
    n[i] = old - kStep;
    const double down = EntailmentWithGradient(o, n, 0.7).loss;
    n[i] = old;
    EXPECT_NEAR(gradient.by_z_n[i], (up - down) / (2 * kStep), 1e-8);
  }
}

}  // namespace
}  // namespace lightcone::lorentz
