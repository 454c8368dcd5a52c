#include "geometry/metric.h"

#include <cmath>
#include <limits>

#include "base/status.h"
#include "geometry/aligned.h"
#include "geometry/row_factors.h"
#include "geometry/uncertainty.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_rows.h"

namespace lightcone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return MessageOf(status);
}

TEST(Metric, NamesAreReadBackAndOthersAreRefusedWithTheFourNames) {
  for (Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    EXPECT_EQ(ParseMetric(MetricName(metric)).value(), metric);
  }
  EXPECT_THAT(ErrorOf(ParseMetric("Lorentz").status()), AllOf(HasSubstr("'metric'"), HasSubstr("'Lorentz'"),
                                                              HasSubstr("lorentz, cosine, inner_product, euclidean")));
}

TEST(Space, AcceptsTheEndsOfEveryRange) {
  EXPECT_TRUE((Space{Metric::kCosine, 1}).Validate().ok());
  EXPECT_TRUE((Space{Metric::kEuclidean, 65'536}).Validate().ok());
  EXPECT_TRUE((Space{Metric::kLorentz, 2, 1e-3, 316.2}).Validate().ok());
  EXPECT_TRUE((Space{Metric::kLorentz, 2, 1e3, 0.3162}).Validate().ok());
  EXPECT_TRUE((Space{Metric::kCosine, 2, kNan, -1}).Validate().ok()) << "only Lorentz has curvature and clip";
}

TEST(Space, NamesTheFieldTheValueAndTheRangeOfABadSetting) {
  EXPECT_EQ(ErrorOf(Space{Metric::kLorentz, 0}.Validate()), "field 'dimension' is 0; allowed: 1 .. 65536");
  EXPECT_EQ(ErrorOf(Space{Metric::kCosine, 65'537}.Validate()), "field 'dimension' is 65537; allowed: 1 .. 65536");
  EXPECT_EQ(ErrorOf(Space{Metric::kLorentz, 2, 0}.Validate()), "field 'curvature' is 0; allowed: 0.001 .. 1000");
  EXPECT_EQ(ErrorOf(Space{Metric::kLorentz, 2, kNan}.Validate()), "field 'curvature' is nan; allowed: 0.001 .. 1000");
  EXPECT_EQ(ErrorOf(Space{Metric::kLorentz, 2, 4, 5.5}.Validate()),
            "field 'clip_radius' is 5.5; allowed: above 0, at most 5 (10 / sqrt(curvature))");
  EXPECT_THAT(ErrorOf(Space{Metric::kLorentz, 2, 1, 0}.Validate()), HasSubstr("field 'clip_radius' is 0"));
  EXPECT_THAT(ErrorOf(Space{Metric::kLorentz, 2, 1, kNan}.Validate()), HasSubstr("field 'clip_radius' is nan"));
}

TEST(CheckVector, RefusesAWrongLength) {
  const Space space{Metric::kLorentz, 128};
  EXPECT_EQ(ErrorOf(CheckVector(space, std::vector<float>(3), "vector")),
            "field 'vector' is a vector of 3 numbers; allowed: exactly 128");
  EXPECT_THAT(ErrorOf(CheckVector(space, {}, "vector")), HasSubstr("a vector of 0 numbers"));
  EXPECT_TRUE(CheckVector(space, std::vector<float>(128), "vector").ok());
}

TEST(CheckVector, NamesTheFirstNumberThatIsNotFinite) {
  std::vector<float> z(128, 0.1f);
  z[17] = -std::nanf("");
  z[20] = kInfinity;
  const Space space{Metric::kInnerProduct, 128};
  EXPECT_EQ(ErrorOf(CheckVector(space, z, "vector")), "field 'vector[17]' is nan; allowed: a finite number");
  z[17] = -kInfinity;
  EXPECT_EQ(ErrorOf(CheckVector(space, z, "query")), "field 'query[17]' is -inf; allowed: a finite number");
}

TEST(CheckVector, RefusesNormsThatFloatArithmeticCannotCarry) {
  const Space cosine{Metric::kCosine, 2};
  EXPECT_EQ(ErrorOf(CheckVector(cosine, std::vector<float>{0, 0}, "vector")),
            "field 'norm of vector' is 0; allowed: at least 1e-18 under the cosine metric");
  EXPECT_THAT(ErrorOf(CheckVector(cosine, std::vector<float>{3e18f, 0}, "vector")), HasSubstr("at most 1e18"));
  for (Metric metric : {Metric::kLorentz, Metric::kInnerProduct, Metric::kEuclidean}) {
    EXPECT_TRUE(CheckVector({metric, 2}, std::vector<float>{0, 0}, "vector").ok());
    EXPECT_TRUE(CheckVector({metric, 2}, std::vector<float>{1e17f, 0}, "vector").ok());
  }
}

TEST(FactorsOf, LorentzFactorsLieOnTheHyperboloid) {
  std::mt19937_64 random(1);
  for (const Space& space : test::SpacesOf(16)) {
    if (space.metric != Metric::kLorentz) continue;
    for (double norm : {0.0, 1e-6, 0.3, 1.0, 50.0}) {
      const auto z = test::RandomVector(random, 16, norm);
      const RowFactors factors = FactorsOf(space, z);
      const double space_norm = factors.scale * NormOf(z);
      const double time = std::sqrt(1 / space.curvature + space_norm * space_norm);
      EXPECT_NEAR(factors.bias, time, 1e-6 * time);
    }
  }
}

TEST(Uncertainty, SeparatesTheNormBeforeTheClipFromTheClippedOne) {
  const Space space{Metric::kLorentz, 2, 1.0, 1.0};
  const std::vector<float> z = {3, 4};
  EXPECT_NEAR(UncertaintyOf(space, z), 1 - std::tanh(5.0), 1e-12);
  EXPECT_NEAR(ClippedUncertaintyOf(space, z), 1 - std::tanh(1.0), 1e-12);
  EXPECT_NEAR(RadiusOfUncertainty(UncertaintyOf(space, z), 1.0), 5.0, 1e-9);
  EXPECT_EQ(UncertaintyOf(space, std::vector<float>{0, 0}), 1.0);
  EXPECT_EQ(UncertaintyOf({Metric::kCosine, 2}, z), 0.0);
  EXPECT_EQ(ClippedUncertaintyOf({Metric::kEuclidean, 2}, z), 0.0);
}

TEST(NeighbourEntropy, IsTheLogarithmOfHowManyNeighboursShareAnItem) {
  EXPECT_NEAR(NeighbourEntropy(std::vector<double>(64, 0.3), 0.1), std::log(64.0), 1e-12);
  EXPECT_NEAR(NeighbourEntropy(std::vector<double>{0.1, 9.0, 9.5}, 0.1), 0, 1e-12);
  EXPECT_EQ(NeighbourEntropy(std::vector<double>{2.0}, 0.1), 0) << "one neighbour leaves no choice";
  const std::vector<double> distances = {0.5, 0.2, 0.9, 0.4};
  double sum = 0, expected = 0;
  for (const double d : distances) sum += std::exp(-d / 0.3);
  for (const double d : distances) expected -= std::exp(-d / 0.3) / sum * std::log(std::exp(-d / 0.3) / sum);
  EXPECT_NEAR(NeighbourEntropy(distances, 0.3), expected, 1e-12);
  EXPECT_NEAR(NeighbourEntropy(std::vector<double>{1e6, 1e6 + 0.1}, 0.1), 0.582203, 1e-6) << "only differences count";
  EXPECT_EQ(NeighbourEntropy(std::vector<double>{0, 1e300}, 1e-12), 0) << "weights that vanish add nothing";
}

TEST(AlignedFloats, StartsOnACacheLineZeroedAndCopiesDeeply) {
  AlignedFloats x(5);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % kVectorAlignment, 0u);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(x.data()[i], 0.0f) << "padding included";
  x[2] = 7;
  AlignedFloats y = x;
  y[2] = 8;
  EXPECT_EQ(x[2], 7.0f);
  x = std::move(y);
  EXPECT_EQ(x[2], 8.0f);
  EXPECT_EQ(x.size(), 5u);
  EXPECT_TRUE(AlignedFloats().empty());
}

}  // namespace
}  // namespace lightcone
