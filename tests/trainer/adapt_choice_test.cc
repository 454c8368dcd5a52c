// The map "auto": a choice among all maps by held-out pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/trainer/two_models.h"
#include "trainer/adapt/evaluate_adapter.h"
#include "trainer/adapt/fit.h"
#include "trainer/adapt/options.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

// What the new side knows of the old one.
enum class Family { kRotated, kLinear, kWarped, kUnrelated };

struct Pairs {
  std::vector<float> source, target;
  AdaptOptions options;

  EmbeddingPairs Given() const { return {source, target, {}, {}}; }
};

// n pairs of cosine embeddings of `in` and `out` numbers around a common mean, as text models have it.
Pairs PairsOf(Family family, int n, int in, int out, uint64_t seed) {
  Rng rng(seed);
  const auto draw = [&](int count) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& x : values) x = rng.Normal();
    return values;
  };
  const std::vector<double> matrix = draw(out * in), mean = draw(in);
  Pairs pairs;
  pairs.options.choose = true;
  pairs.options.source = {Metric::kCosine, in};
  pairs.options.target = {Metric::kCosine, out};
  pairs.options.steps = 20;
  pairs.options.error_head = false;
  for (int i = 0; i < n; ++i) {
    std::vector<double> z = draw(in);
    for (size_t j = 0; j < z.size(); ++j) z[j] += mean[j];
    double square = 0;
    for (const double x : z) square += x * x;
    for (double& x : z) x *= 3 / std::sqrt(square);  // a cosine space does not know the length
    const std::vector<double> other = draw(out);
    for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
      double sum = 0;
      for (size_t j = 0; j < z.size(); ++j) sum += matrix[o * z.size() + j] * z[j];
      if (family == Family::kRotated) sum = o == 0 ? -z[1] : o == 1 ? z[0] : o < z.size() ? z[o] : 0;
      if (family == Family::kWarped) sum = std::sin(sum);
      if (family == Family::kUnrelated) sum = other[o];
      pairs.target.push_back(static_cast<float>(sum + 0.05 * other[o]));
    }
    for (const double x : z) pairs.source.push_back(static_cast<float>(x));
  }
  return pairs;
}

AdapterFile Chosen(const Pairs& pairs) {
  const absl::StatusOr<AdapterFile> file = FitAdapter(pairs.Given(), pairs.options);
  EXPECT_TRUE(file.ok()) << MessageOf(file.status());
  return file.value();
}

double LossOf(const AdapterFile& file, std::string_view map) {
  for (const ComparedMap& one : file.fit.compared) {
    if (one.map == map) return one.held_out_loss;
  }
  ADD_FAILURE() << map << " was not compared";
  return 0;
}

// The map in the file has the least of all losses, and every closed form was tried.
void ExpectBest(const AdapterFile& file) {
  const double own = LossOf(file, AdapterKindName(file.spec.kind));
  for (const char* map : {"procrustes", "affine", "low-rank-affine", "kernel"})
    EXPECT_LE(own, LossOf(file, map)) << map;
  for (const ComparedMap& one : file.fit.compared) EXPECT_LE(own, one.held_out_loss) << one.map;
  EXPECT_TRUE(Adapter::Make(file.spec).ok());
}

TEST(ChooseMap, IsNeverWorseOnHeldOutPairsThanAnyClosedFormWhateverTheFamily) {
  for (const Family family : {Family::kRotated, Family::kLinear, Family::kWarped, Family::kUnrelated}) {
    for (const AdapterDirection direction : {AdapterDirection::kItem, AdapterDirection::kQuery}) {
      Pairs pairs = PairsOf(family, 300, 6, 6, 3);
      pairs.options.direction = direction;
      ExpectBest(Chosen(pairs));
    }
  }
}

TEST(ChooseMap, TakesTheKernelForAWarpedSpace) {
  const AdapterFile warped = Chosen(PairsOf(Family::kWarped, 800, 3, 8, 1));
  EXPECT_EQ(warped.spec.kind, AdapterKind::kKernel) << ChoiceText(warped);
  EXPECT_LT(LossOf(warped, "kernel"), LossOf(warped, "affine") - 0.02);
}

TEST(ChooseMap, SaysWhatItComparedAndWhy) {
  const AdapterFile file = Chosen(PairsOf(Family::kWarped, 200, 4, 8, 1));
  EXPECT_EQ(file.fit.compared_by, kAutoLossUnlabelled);
  EXPECT_THAT(ChoiceText(file), HasSubstr("has the least held-out loss reg+rel: procrustes "));
  EXPECT_THAT(ChoiceText(file), HasSubstr(", affine "));
  const std::string bytes = EncodeAdapter(file).value();
  EXPECT_TRUE(ParseAdapter(bytes).value() == file);
  Pairs named = PairsOf(Family::kWarped, 200, 4, 8, 1);
  named.options.choose = false;
  named.options.kind = AdapterKind::kProcrustes;
  EXPECT_EQ(ChoiceText(Chosen(named)), "");
}

TEST(ChooseMap, TheSamePairsGiveTheSameAdapter) {
  const Pairs pairs = PairsOf(Family::kWarped, 200, 4, 8, 1);
  EXPECT_TRUE(Chosen(pairs) == Chosen(pairs));
}

TEST(ChooseMap, FewPairsOfManyNumbersAreFitted) {
  ExpectBest(Chosen(PairsOf(Family::kLinear, static_cast<int>(kAdaptPairsMin), 200, 40, 1)));
  ExpectBest(Chosen(PairsOf(Family::kLinear, static_cast<int>(kAdaptPairsMin), 1, 2, 1)));
}

TEST(ChooseMap, ANumberThatNeverChangesAndRepeatedPairsDoNoHarm) {
  Pairs pairs = PairsOf(Family::kLinear, 120, 6, 8, 1);
  for (size_t i = 0; i < 120; ++i) pairs.source[i * 6] = 0.5f;
  for (size_t i = 60; i < 120; ++i) {
    std::copy_n(pairs.source.begin() + static_cast<int64_t>(i - 60) * 6, 6,
                pairs.source.begin() + static_cast<int64_t>(i) * 6);
    std::copy_n(pairs.target.begin() + static_cast<int64_t>(i - 60) * 8, 8,
                pairs.target.begin() + static_cast<int64_t>(i) * 8);
  }
  ExpectBest(Chosen(pairs));
  for (size_t i = 0; i < 120; ++i)
    std::copy_n(pairs.source.begin(), 6, pairs.source.begin() + static_cast<int64_t>(i) * 6);
  ExpectBest(Chosen(pairs));
}

TEST(ChooseMap, ARowOfZerosIsNamed) {
  Pairs pairs = PairsOf(Family::kLinear, 120, 6, 8, 1);
  std::fill_n(pairs.source.begin() + 7 * 6, 6, 0.0f);
  EXPECT_THAT(MessageOf(FitAdapter(pairs.Given(), pairs.options).status()), HasSubstr("pairs.source[7]"));
}

TEST(ChooseMap, ServesLorentzSpacesWithLabelsInBothDirections) {
  const TwoModels world = MakeTwoModels(300, 8, 6, 5, Metric::kLorentz, 1);
  for (const bool item : {true, false}) {
    AdaptOptions options;
    options.choose = true;
    options.steps = 20;
    options.direction = item ? AdapterDirection::kItem : AdapterDirection::kQuery;
    options.source = item ? world.old_space : world.new_space;
    options.target = item ? world.new_space : world.old_space;
    const absl::StatusOr<AdapterFile> file =
        FitAdapter({item ? world.old_z : world.new_z, item ? world.new_z : world.old_z, world.labels, {}}, options);
    ASSERT_TRUE(file.ok()) << MessageOf(file.status());
    EXPECT_EQ(file->fit.compared_by, kAutoLossLabelled);
    ExpectBest(*file);
  }
}

TEST(ChooseMap, StopsAndReportsItsProgress) {
  const Pairs pairs = PairsOf(Family::kWarped, 200, 4, 8, 1);
  const std::atomic<bool> stop = true;
  EXPECT_EQ(FitAdapter(pairs.Given(), pairs.options, {}, &stop).status().code(), absl::StatusCode::kCancelled);
  int64_t last = 0;
  const auto see = [&](const AdaptProgress& progress) {
    EXPECT_GE(progress.step, last);
    EXPECT_LE(progress.step, progress.steps);
    EXPECT_EQ(progress.steps, 20);
    last = progress.step;
  };
  ASSERT_TRUE(FitAdapter(pairs.Given(), pairs.options, see).ok());
  EXPECT_GT(last, 0);
}

TEST(ChooseMap, RefusesAWidthOfItsOwnAndUnknownNames) {
  Pairs pairs = PairsOf(Family::kLinear, 100, 4, 4, 1);
  pairs.options.width = 16;
  EXPECT_THAT(MessageOf(FitAdapter(pairs.Given(), pairs.options).status()), HasSubstr("field 'width' is 16"));
  AdaptOptions options;
  EXPECT_TRUE(ParseMap("auto", options).ok());
  EXPECT_TRUE(options.choose);
  EXPECT_TRUE(ParseMap("kernel", options).ok());
  EXPECT_FALSE(options.choose);
  EXPECT_EQ(options.kind, AdapterKind::kKernel);
  EXPECT_THAT(MessageOf(ParseMap("mlp", options)), HasSubstr("'mlp'; allowed: auto, procrustes"));
}

}  // namespace
}  // namespace lightcone
