// Adapters on every instruction set of this machine against float64, with tails, gaps and misaligned rows; and what is
// refused.
#include "geometry/adapter.h"

#include <cmath>
#include <random>
#include <thread>

#include "base/status.h"
#include "geometry/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/geometry/random_adapter.h"

namespace lightcone {
namespace {

using test::AdapterTruth;
using test::RandomAdapter;
using test::RandomNumbers;
using test::TruthOf;
using ::testing::HasSubstr;

constexpr AdapterKind kKinds[] = {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine,
                                  AdapterKind::kResidualMlp, AdapterKind::kKernel};

struct Shape {
  int in, out, width;
};

class AdapterOnEveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { ForceKernelTarget(GetParam()); }
  void TearDown() override { ForceKernelTarget(0); }
};

void ExpectRow(const AdapterSpec& spec, std::span<const float> z, const float* out) {
  const AdapterTruth truth = TruthOf(spec, z);
  for (std::size_t j = 0; j < truth.out.size(); ++j) {
    const double steps = spec.input_dimension + spec.width + 8;
    ASSERT_NEAR(out[j], truth.out[j], 2 * steps * 0x1p-24 * truth.size[j] + 1e-30)
        << AdapterKindName(spec.kind) << " " << spec.input_dimension << "-" << spec.width << "-"
        << spec.output_dimension() << " output " << j;
  }
}

// `n` rows with gaps of NaN, starting `offset` floats into an allocation that ends with the last row.
void CheckBlock(std::mt19937_64& random, const AdapterSpec& spec, std::size_t n, std::size_t gap, std::size_t offset) {
  const Adapter adapter = Adapter::Make(spec).value();
  const std::size_t in = static_cast<std::size_t>(spec.input_dimension), stride = in + gap,
                    out = static_cast<std::size_t>(spec.output_dimension()), out_stride = out + gap;
  std::vector<float> rows(offset + (n == 0 ? 0 : (n - 1) * stride + in), std::nanf(""));
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<float> z = RandomNumbers(random, in, 1.0);
    std::copy(z.begin(), z.end(), rows.begin() + static_cast<std::ptrdiff_t>(offset + i * stride));
  }
  std::vector<float> result(offset + n * out_stride + 1, 123.0f);
  adapter.Apply(rows.data() + offset, stride, n, result.data() + offset, out_stride);
  for (std::size_t i = 0; i < n; ++i) {
    ExpectRow(spec, std::span<const float>(rows).subspan(offset + i * stride, in), &result[offset + i * out_stride]);
    for (std::size_t j = out; j < out_stride; ++j) {
      ASSERT_EQ(result[offset + i * out_stride + j], 123.0f) << "wrote between rows, n=" << n;
    }
  }
  ASSERT_EQ(result.back(), 123.0f) << "wrote past the end";
}

TEST_P(AdapterOnEveryTarget, AgreesWithTheReferenceForEveryNumberOfOutputs) {
  std::mt19937_64 random(31);
  for (int out = 1; out <= 70; ++out) {
    CheckBlock(random, RandomAdapter(random, AdapterKind::kResidualMlp, 1 + out % 9, out, 71 - out), 7,
               static_cast<std::size_t>(out % 3), static_cast<std::size_t>(out % 5));
  }
}

TEST_P(AdapterOnEveryTarget, AgreesWithTheReferenceForEveryNumberOfRows) {
  std::mt19937_64 random(32);
  const AdapterSpec spec = RandomAdapter(random, AdapterKind::kResidualMlp, 19, 21, 37);
  for (std::size_t n = 0; n <= 15; ++n) CheckBlock(random, spec, n, n % 2, n % 7);
  for (const std::size_t n : {47, 48, 49, 95, 96, 101}) CheckBlock(random, spec, n, 1, 3);
}

TEST_P(AdapterOnEveryTarget, AgreesWithTheReferenceForEveryMapAndShape) {
  std::mt19937_64 random(33);
  // Low-rank maps below and above half of the dimension take different ways.
  const Shape shapes[] = {{1, 1, 1},    {16, 16, 3},     {16, 16, 12},   {33, 17, 5},
                          {17, 33, 17}, {128, 128, 512}, {130, 64, 100}, {64, 130, 31}};
  for (const AdapterKind kind : kKinds) {
    for (const Shape& shape : shapes) {
      const int rank_max = std::min(shape.in, shape.out);
      const int width = kind == AdapterKind::kLowRankAffine ? std::min(shape.width, rank_max) : shape.width;
      CheckBlock(random, RandomAdapter(random, kind, shape.in, shape.out, width), 9, 2, 1);
    }
  }
}

TEST_P(AdapterOnEveryTarget, AUnitInputAgreesWithTheReferenceWhateverTheLength) {
  std::mt19937_64 random(45);
  constexpr std::size_t kRows = 53, kIn = 21;
  for (const AdapterKind kind : kKinds) {
    for (const int out : {19, 21}) {  // the latter without a linear part in low-rank-affine
      const AdapterHead head = kind == AdapterKind::kResidualMlp ? AdapterHead::kHidden : AdapterHead::kInput;
      AdapterSpec spec = RandomAdapter(random, kind, kIn, out, 7, head);
      spec.unit_input = true;
      if (kind == AdapterKind::kKernel) spec.input_radius = out == 19 ? 1.0f : 0.6f;
      const Adapter adapter = Adapter::Make(spec).value();
      const std::size_t wide = static_cast<std::size_t>(out);
      const std::vector<float> rows = RandomNumbers(random, kRows * kIn, 1.0);
      for (const double length : {1.0, 10.0, 1e-6, 2e-17, 2e17}) {
        std::vector<float> scaled = rows, result(kRows * wide), uncertainties(kRows);
        for (float& x : scaled) x = static_cast<float>(x * length);
        adapter.Apply(scaled, result, uncertainties);
        for (std::size_t i = 0; i < kRows; ++i) {
          const std::span<const float> z = std::span<const float>(scaled).subspan(i * kIn, kIn);
          ExpectRow(spec, z, &result[i * wide]);
          ASSERT_NEAR(uncertainties[i], UncertaintyOfError(spec.target, TruthOf(spec, z).error), 1e-5) << length;
        }
        std::vector<float> alone(wide);
        ASSERT_NEAR(adapter.ApplyOne({scaled.data(), kIn}, alone), uncertainties[0], 1e-5) << length;
        ExpectRow(spec, {scaled.data(), kIn}, alone.data());
      }
    }
  }
}

TEST_P(AdapterOnEveryTarget, OneRowAgreesForEveryDimension) {
  std::mt19937_64 random(34);
  for (int in = 1; in <= 40; ++in) {
    const AdapterSpec spec = RandomAdapter(random, AdapterKind::kResidualMlp, in, 41 - in, in + 3);
    const Adapter adapter = Adapter::Make(spec).value();
    const std::vector<float> z = RandomNumbers(random, static_cast<std::size_t>(in), 1.0);
    std::vector<float> out(static_cast<std::size_t>(adapter.output_dimension()));
    EXPECT_EQ(adapter.ApplyOne(z, out), 0.0f) << "there is no head";
    ExpectRow(spec, z, out.data());
  }
}

TEST_P(AdapterOnEveryTarget, UncertaintiesAreThoseOfThePredictedError) {
  std::mt19937_64 random(35);
  for (const AdapterHead head : {AdapterHead::kInput, AdapterHead::kHidden}) {
    const AdapterSpec spec = RandomAdapter(random, AdapterKind::kResidualMlp, 21, 19, 35, head);
    const Adapter adapter = Adapter::Make(spec).value();
    ASSERT_TRUE(adapter.has_uncertainty());
    const std::size_t n = 53;
    const std::vector<float> rows = RandomNumbers(random, n * 21, 1.0);
    std::vector<float> out(n * 19), uncertainties(n);
    adapter.Apply(rows, out, uncertainties);
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<const float> z = std::span<const float>(rows).subspan(i * 21, 21);
      const double truth = UncertaintyOfError(spec.target, TruthOf(spec, z).error);
      ASSERT_NEAR(uncertainties[i], truth, 1e-5) << i;
      std::vector<float> alone(19);
      ASSERT_NEAR(adapter.ApplyOne(z, alone), truth, 1e-5) << i;
    }
  }
}

// What is off is at most 2^-11 of the terms' sizes, and no more in a layer after another than it adds up to.
TEST_P(AdapterOnEveryTarget, ALargeQueryAdapterIsOffByNoMoreThanItsHalfPrecision) {
  std::mt19937_64 random(45);
  constexpr int kIn = 310, kOut = 290, kWidth = 270;
  constexpr double kHalf = 0x1p-11;
  double most = 0;
  for (const float size : {1e-12f, 1.0f, 1e5f}) {
    AdapterSpec spec = RandomAdapter(random, AdapterKind::kAffine, kIn, kOut, 0);
    for (float& w : spec.linear) w *= size;
    spec.linear[5] = size;  // beside weights of any size
    spec.linear[7] = size * 1e-7f;
    const std::vector<float> z = RandomNumbers(random, kIn, 1.0);
    const AdapterTruth truth = TruthOf(spec, z);
    for (const AdapterDirection direction : {AdapterDirection::kItem, AdapterDirection::kQuery}) {
      spec.direction = direction;
      const Adapter adapter = Adapter::Make(spec).value();
      std::vector<float> out(kOut);
      adapter.ApplyOne(z, out);
      for (int o = 0; o < kOut; ++o) {
        double terms = std::abs(spec.offset[o]);
        for (int k = 0; k < kIn; ++k) terms += std::abs(static_cast<double>(spec.linear[o * kIn + k]) * z[k]);
        const double off = std::abs(out[o] - truth.out[o]) / terms;
        ASSERT_LE(off, direction == AdapterDirection::kQuery ? kHalf : 1e-6) << o << ", weights of " << size;
        if (direction == AdapterDirection::kQuery) most = std::max(most, off);
      }
    }
  }
  if (KernelTargetName(GetParam()).starts_with("AVX")) {
    EXPECT_GT(most, 1e-6) << "weights were read in float32";
  }
  AdapterSpec many = RandomAdapter(random, AdapterKind::kAffine, kIn, kOut, 0);
  many.direction = AdapterDirection::kQuery;
  const std::vector<float> rows = RandomNumbers(random, 49 * kIn, 1.0);
  std::vector<float> outs(49 * kOut);
  Adapter::Make(many).value().Apply(rows, outs);
  ExpectRow(many, std::span<const float>(rows).subspan(48 * kIn, kIn), &outs[48 * kOut]);  // no row of a call is alone
  for (const AdapterKind kind : {AdapterKind::kResidualMlp, AdapterKind::kKernel, AdapterKind::kLowRankAffine}) {
    AdapterSpec spec = RandomAdapter(random, kind, kIn, kOut, kWidth);
    spec.direction = AdapterDirection::kQuery;
    for (float& w : spec.hidden) w *= 0.1f;
    const Adapter adapter = Adapter::Make(spec).value();
    const std::vector<float> z = RandomNumbers(random, kIn, 1.0);
    std::vector<float> out(kOut), together(2 * kOut), twice = z;
    twice.insert(twice.end(), z.begin(), z.end());
    adapter.ApplyOne(z, out);
    adapter.Apply(twice, together);  // in float32
    double gap = 0, length = 0;
    for (int o = 0; o < kOut; ++o) {
      gap += std::pow(out[o] - together[o], 2);
      length += std::pow(together[o], 2);
    }
    EXPECT_LE(std::sqrt(gap / length), kHalf) << AdapterKindName(kind);
  }
}

TEST_P(AdapterOnEveryTarget, AKernelKeepsItsDigitsAtItsCentresWhereverTheRowStands) {
  std::mt19937_64 random(44);
  constexpr std::size_t kIn = 33, kOut = 5, kWidth = 21;
  AdapterSpec spec = RandomAdapter(random, AdapterKind::kKernel, kIn, kOut, kWidth);
  spec.sharpness = 2;
  for (float& x : spec.hidden) x *= 0.5f;  // within the radius
  const Adapter adapter = Adapter::Make(spec).value();
  for (const double gap : {0.0, 1e-6, 1e-4, 2e-3}) {
    std::vector<float> rows = spec.hidden;
    const std::vector<float> away = RandomNumbers(random, rows.size(), gap / std::sqrt(double{kIn}));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += away[i];
    std::vector<float> together(kWidth * kOut), alone(kOut);
    adapter.Apply(rows, together);
    for (std::size_t j = 0; j < kWidth; ++j) {
      const std::span<const float> z = std::span<const float>(rows).subspan(j * kIn, kIn);
      const AdapterTruth truth = TruthOf(spec, z);
      adapter.ApplyOne(z, alone);
      for (std::size_t o = 0; o < kOut; ++o) {
        EXPECT_NEAR(together[j * kOut + o], truth.out[o], 3e-6) << "centre " << j << ", gap " << gap;
        EXPECT_NEAR(alone[o], truth.out[o], 3e-6) << "centre " << j << ", gap " << gap;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterOnEveryTarget, ::testing::ValuesIn(KernelTargets()),
                         [](const auto& info) { return std::string(KernelTargetName(info.param)); });

TEST(Adapter, RunsTheSameFromSeveralThreads) {
  std::mt19937_64 random(36);
  const Adapter adapter = Adapter::Make(RandomAdapter(random, AdapterKind::kResidualMlp, 40, 40, 200)).value();
  const std::vector<float> rows = RandomNumbers(random, 60 * 40, 1.0);
  std::vector<std::vector<float>> results(4, std::vector<float>(rows.size()));
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) threads.emplace_back([&] { adapter.Apply(rows, result); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Adapter, LargestAllowedWeightsOnTheLongestVectorStayFinite) {
  AdapterSpec spec;
  spec.input_dimension = 64;
  spec.target = {Metric::kCosine, 8};
  spec.width = 64;
  spec.linear.assign(8 * 64, kAdapterWeightMax);
  spec.offset.assign(8, kAdapterWeightMax);
  spec.hidden.assign(64 * 64, kAdapterWeightMax);
  spec.hidden_offset.assign(64, kAdapterWeightMax);
  spec.output.assign(8 * 64, kAdapterWeightMax);
  spec.head = AdapterHead::kHidden;
  spec.head_weights.assign(65, kAdapterWeightMax);
  const Adapter adapter = Adapter::Make(spec).value();
  const std::vector<float> z(64, static_cast<float>(kNormMax / 8));
  std::vector<float> out(8);
  EXPECT_EQ(adapter.ApplyOne(z, out), 1.0f);
  for (const float x : out) EXPECT_TRUE(std::isfinite(x)) << x;
}

TEST(AdapterSpec, NamesTheFieldTheValueAndWhatIsAllowed) {
  std::mt19937_64 random(37);
  const auto error = [&](AdapterKind kind, auto change) {
    AdapterSpec spec = RandomAdapter(random, kind, 6, 4, 3);
    EXPECT_TRUE(spec.Validate().ok()) << MessageOf(spec.Validate());
    change(spec);
    const absl::Status status = Adapter::Make(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  constexpr AdapterKind kMlp = AdapterKind::kResidualMlp, kLowRank = AdapterKind::kLowRankAffine;
  EXPECT_EQ(error(kMlp, [](AdapterSpec& s) { s.hidden.pop_back(); }),
            "field 'adapter.hidden' is 17 numbers; allowed: exactly 18 (3 x 6)");
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.linear.clear(); }), HasSubstr("'adapter.linear' is 0 numbers"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.output[5] = std::nanf(""); }),
              HasSubstr("'adapter.output[5]' is nan"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.offset[1] = -2e6f; }), HasSubstr("'adapter.offset[1]' is -2e+06"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.width = 0; }), HasSubstr("'adapter.width' is 0; allowed: 1 .. 16384"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.input_dimension = 0; }), HasSubstr("'adapter.input_dimension' is 0"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.target.curvature = -1; }),
              HasSubstr("'adapter.target.curvature' is -1"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.head = AdapterHead::kInput; }),
              HasSubstr("'adapter.head_weights' is 0 numbers; allowed: exactly 7"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.head_weights = {1}; }), HasSubstr("none, for this kind"));
  EXPECT_THAT(error(kLowRank, [](AdapterSpec& s) { s.width = 5; }), HasSubstr("'adapter.width' is 5; allowed: 1 .. 4"));
  EXPECT_THAT(error(kLowRank,
                    [](AdapterSpec& s) {
                      s.hidden_offset = {1, 2, 3};
                    }),
              HasSubstr("'adapter.hidden_offset'"));
  EXPECT_THAT(error(kLowRank, [](AdapterSpec& s) { s.head = AdapterHead::kHidden; }), HasSubstr("'adapter.head'"));
  EXPECT_THAT(error(kMlp, [](AdapterSpec& s) { s.sharpness = 1; }),
              HasSubstr("'adapter.sharpness' is 1; allowed: 0 for this kind"));
  EXPECT_THAT(error(AdapterKind::kKernel, [](AdapterSpec& s) { s.sharpness = std::nanf(""); }),
              HasSubstr("'adapter.sharpness' is nan; allowed: above 0"));
  EXPECT_THAT(error(AdapterKind::kKernel, [](AdapterSpec& s) { s.input_radius = 0; }),
              HasSubstr("'adapter.input_radius' is 0; allowed: above 0"));
  EXPECT_THAT(error(AdapterKind::kKernel,
                    [](AdapterSpec& s) {
                      s.hidden_offset = {1, 2, 3};
                    }),
              HasSubstr("'adapter.hidden_offset'"));
  EXPECT_THAT(error(AdapterKind::kAffine, [](AdapterSpec& s) { s.width = 2; }), HasSubstr("'adapter.width' is 2"));
  EXPECT_THAT(error(AdapterKind::kProcrustes,
                    [](AdapterSpec& s) {
                      s.offset = {0, 0, 0, 0};
                    }),
              HasSubstr("'adapter.offset'"));
}

TEST(KernelAdapter, AtACentreIsNotANumberWhatever) {
  // |x - a|^2 = |x|^2 + |a|^2 - 2 <x, a> may come out below 0 there.
  std::mt19937_64 random(43);
  AdapterSpec spec = RandomAdapter(random, AdapterKind::kKernel, 33, 5, 17);
  spec.sharpness = 0.25f;
  for (float& x : spec.hidden) x *= 0.5f;  // within the radius
  const Adapter adapter = Adapter::Make(spec).value();
  std::vector<float> out(17 * 5);
  adapter.Apply(spec.hidden, out);
  for (std::size_t j = 0; j < 17; ++j) {
    const AdapterTruth truth = TruthOf(spec, std::span<const float>(spec.hidden).subspan(j * 33, 33));
    for (std::size_t o = 0; o < 5; ++o) EXPECT_NEAR(out[j * 5 + o], truth.out[o], 1e-3);
  }
}

TEST(AdapterNames, AreReadBack) {
  for (const AdapterKind kind : kKinds) EXPECT_EQ(ParseAdapterKind(AdapterKindName(kind)).value(), kind);
  for (const AdapterDirection direction : {AdapterDirection::kQuery, AdapterDirection::kItem}) {
    EXPECT_EQ(ParseAdapterDirection(AdapterDirectionName(direction)).value(), direction);
  }
  EXPECT_EQ(MessageOf(ParseAdapterKind("mlp").status()),
            "field 'map' is 'mlp'; allowed: procrustes, affine, low-rank-affine, residual-mlp, kernel");
  EXPECT_EQ(MessageOf(ParseAdapterDirection("items").status()), "field 'direction' is 'items'; allowed: query, item");
}

TEST(UncertaintyOfError, RisesFromZeroAndStaysWithinOne) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    const Space space{metric, 4, 2.0, 1.0};
    EXPECT_EQ(UncertaintyOfError(space, 0), 0);
    EXPECT_EQ(UncertaintyOfError(space, -1), 0);
    EXPECT_LT(UncertaintyOfError(space, 0.2), UncertaintyOfError(space, 0.4)) << MetricName(metric);
    EXPECT_LE(UncertaintyOfError(space, 1e30), 1);
    EXPECT_EQ(UncertaintyOfError(space, INFINITY), 1);
  }
  EXPECT_DOUBLE_EQ(UncertaintyOfError({Metric::kLorentz, 4, 4.0, 1.0}, 0.3), std::tanh(0.6));
  EXPECT_DOUBLE_EQ(UncertaintyOfError({Metric::kCosine, 4}, 0.5), 0.25);
}

}  // namespace
}  // namespace lightcone
