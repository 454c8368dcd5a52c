// Rows of two models without a common item: matched clusters, and pairs by what lies beside what.
#include "trainer/adapt/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "base/status.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/cluster_match_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using torch::Tensor;

Tensor NormalNumbers(c10::IntArrayRef shape, Rng* rng) {
  Tensor values = torch::empty(shape, torch::kFloat32);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] = static_cast<float>(rng->Normal());
  return values;
}

// Items of sixty subjects of unlike sizes, some beside each other, and two models that see them: the one as they are,
// the other turned, in another number of dimensions and with a noise of its own.
class TwoViews {
 public:
  TwoViews() {
    const Tensor families = 1.5 * NormalNumbers({8, kSeen}, &rng_);
    for (int64_t i = 0; i < kSubjects; ++i) {
      subjects_.push_back(families[i % 8 < 5 ? i % 3 : i % 8] + NormalNumbers({kSeen}, &rng_));
    }
    turn_ = std::get<0>(torch::linalg_qr(NormalNumbers({kOther, kOther}, &rng_).to(torch::kFloat64)))
                .narrow(1, 0, kSeen)
                .to(torch::kFloat32);
  }
  Tensor Items(int64_t count) {
    std::vector<Tensor> items;
    for (int64_t i = 0; i < count; ++i) {
      const double u = rng_.Uniform();
      const auto subject = static_cast<size_t>(u * u * kSubjects);
      items.push_back(subjects_[subject] + 0.6 * NormalNumbers({kSeen}, &rng_));
    }
    return torch::stack(items);
  }
  Tensor ByOld(const Tensor& items) { return UnitRows(items).contiguous(); }
  Tensor ByNew(const Tensor& items) {
    return UnitRows(torch::matmul(items, turn_.t()) + 0.05 * NormalNumbers({items.size(0), kOther}, &rng_))
        .contiguous();
  }

  static constexpr int64_t kSeen = 16, kOther = 24, kSubjects = 60;

 private:
  Rng rng_{4};
  std::vector<Tensor> subjects_;
  Tensor turn_;  // [kOther, kSeen], orthonormal columns
};

std::span<const float> ValuesOf(const Tensor& rows) {
  return {rows.data_ptr<float>(), static_cast<size_t>(rows.numel())};
}

const Space kOldSpace{Metric::kCosine, TwoViews::kSeen}, kNewSpace{Metric::kCosine, TwoViews::kOther};

// Share of the ten rows nearest to each new row, but itself, that the old rows find, carried by the map.
double RecallOf(const LinearMap& map, const Tensor& old_rows, const Tensor& new_rows) {
  const Tensor carried = UnitRows(torch::matmul(old_rows.to(torch::kFloat64), map.w.t()) + map.c).to(torch::kFloat32);
  const auto nearest = [&](const Tensor& gallery) {
    const Tensor similar = torch::matmul(new_rows, gallery.t());
    similar.fill_diagonal_(-2);
    return std::get<1>(similar.topk(10, 1));
  };
  const Tensor right = nearest(new_rows), found = nearest(carried);
  return right.unsqueeze(2).eq(found.unsqueeze(1)).any(2).to(torch::kFloat64).mean().item<double>();
}

TEST(Alignment, OfOtherItemsCarriesNearlyAsWellAsPairs) {
  torch::set_num_threads(1);
  TwoViews models;
  const Tensor common = models.Items(600), old_rows = models.ByOld(models.Items(3'000)),
               new_rows = models.ByNew(models.Items(2'500));
  int64_t steps = 0;
  const auto aligned = AlignUnpaired(ValuesOf(old_rows), kOldSpace, ValuesOf(new_rows), kNewSpace, {},
                                     [&steps](const AlignProgress& progress) {
                                       EXPECT_GT(progress.step, steps);
                                       steps = progress.step;
                                       EXPECT_LE(progress.step, progress.steps);
                                     });
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  ASSERT_EQ(aligned->source.size(), aligned->target.size());
  EXPECT_GT(aligned->agreement, kAgreementMin);
  EXPECT_EQ(aligned->looked_at, 3'000);
  EXPECT_EQ(std::set<int64_t>(aligned->source.begin(), aligned->source.end()).size(), aligned->source.size());
  const Tensor x = old_rows.index_select(0, torch::tensor(aligned->source));
  const Tensor y = new_rows.index_select(0, torch::tensor(aligned->target));
  const Tensor old_common = models.ByOld(common), new_common = models.ByNew(common);
  const double unpaired = RecallOf(FitRidge(x, y), old_common, new_common);
  const Tensor pairs = models.Items(2'000);
  const double paired = RecallOf(FitRidge(models.ByOld(pairs), models.ByNew(pairs)), old_common, new_common);
  EXPECT_GT(unpaired, 0.9 * paired) << paired;
  const auto again = AlignUnpaired(ValuesOf(old_rows), kOldSpace, ValuesOf(new_rows), kNewSpace, {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->source, aligned->source) << "the same rows and seed give the same pairs";
}

TEST(Alignment, OfModelsWithNothingInCommonDisagreesWithItself) {
  torch::set_num_threads(1);
  Rng rng(9);
  const Tensor a = UnitRows(NormalNumbers({1'500, 16}, &rng)).contiguous(),
               b = UnitRows(NormalNumbers({1'500, 24}, &rng)).contiguous();
  const auto aligned = AlignUnpaired(ValuesOf(a), kOldSpace, ValuesOf(b), kNewSpace, {});
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_LT(aligned->agreement, kAgreementMin / 2);
}

TEST(Alignment, GoesIntoFewerDimensionsAndLooksAtSomeOfManyRows) {
  torch::set_num_threads(2);
  TwoViews models;
  const Tensor from = models.ByNew(models.Items(3'000)), to = models.ByOld(models.Items(2'500));
  const auto aligned = AlignUnpaired(ValuesOf(from), kNewSpace, ValuesOf(to), kOldSpace, {.rows_max = 2'000});
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_EQ(aligned->looked_at, 2'000);
  EXPECT_GT(aligned->agreement, kAgreementMin);
  EXPECT_EQ(std::set<int64_t>(aligned->target.begin(), aligned->target.end()).size(), aligned->target.size());
  EXPECT_GT(*std::max_element(aligned->source.begin(), aligned->source.end()), 2'900) << "evenly spread ones";
}

// In the principal directions of 300: the others hold nothing but a little noise.
TEST(Alignment, FindsTheDirectionsThatCountAmongMany) {
  torch::set_num_threads(2);
  TwoViews models;
  Rng rng(12);
  const auto among_many = [&rng](const Tensor& rows) {
    const Tensor turn = std::get<0>(torch::linalg_qr(NormalNumbers({300, rows.size(1)}, &rng)));
    return UnitRows(torch::matmul(rows, turn.t()) + 0.005 * NormalNumbers({rows.size(0), 300}, &rng)).contiguous();
  };
  const Tensor from = among_many(models.ByOld(models.Items(2'500)));
  const Tensor to = among_many(models.ByNew(models.Items(2'500)));
  const Space space{Metric::kCosine, 300};
  const auto aligned = AlignUnpaired(ValuesOf(from), space, ValuesOf(to), space, {});
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_GT(aligned->agreement, kAgreementMin);
}

TEST(Alignment, OfCopiesAndOfMoreDimensionsThanAreToldApartEndsWell) {
  torch::set_num_threads(2);
  Rng rng(6);
  const Tensor one = UnitRows(NormalNumbers({1, 300}, &rng));
  const Tensor copies = one.repeat({1'005, 1}).contiguous();
  const Tensor others = UnitRows(NormalNumbers({1'005, 300}, &rng)).contiguous();
  const Space space{Metric::kCosine, 300};
  for (const auto& [from, to] : {std::pair(copies, others), {others, copies}, {copies, copies}}) {
    const auto aligned = AlignUnpaired(ValuesOf(from), space, ValuesOf(to), space, {.starts = 2});
    ASSERT_TRUE(aligned.ok()) << aligned.status();
    EXPECT_LT(aligned->source.size(), 64u) << "copies match nothing but one row";
  }
}

TEST(Alignment, RefusesWhatItCannotMatchAndStopsWhenTold) {
  Rng rng(9);
  Tensor a = UnitRows(NormalNumbers({1'000, 16}, &rng)).contiguous();
  const Tensor b = UnitRows(NormalNumbers({1'000, 24}, &rng)).contiguous();
  const auto error = [](const auto& result) { return MessageOf(result.status()); };
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a).first(16 * 999), kOldSpace, ValuesOf(b), kNewSpace, {})),
              HasSubstr("'unpaired.source' is 999 rows; allowed: at least 1000"));
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a), {Metric::kLorentz, 16}, ValuesOf(b), kNewSpace, {})),
              HasSubstr("'unpaired.source.metric' is lorentz; allowed: cosine"));
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a), kOldSpace, ValuesOf(b), kNewSpace, {.rows_max = 100})),
              HasSubstr("'rows_max' is 100; allowed: 1000 .. 12000"));
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a), {Metric::kCosine, 1}, ValuesOf(b), kNewSpace, {})),
              HasSubstr("'unpaired.source.dimension' is 1; allowed: 2 .. 4096"));
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a).first(16'001), {Metric::kCosine, 15}, ValuesOf(b), kNewSpace, {})),
              HasSubstr("'unpaired.source' is 16001 numbers; allowed: rows of 15"));
  std::atomic<bool> stop = true;
  EXPECT_EQ(AlignUnpaired(ValuesOf(a), kOldSpace, ValuesOf(b), kNewSpace, {}, {}, &stop).status().code(),
            absl::StatusCode::kCancelled);
  a[7][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error(AlignUnpaired(ValuesOf(a), kOldSpace, ValuesOf(b), kNewSpace, {})),
              HasSubstr("unpaired.source[7]"));
}

TEST(Assign, FindsTheLeastSumOfAllOrders) {
  Rng rng(2);
  for (int round = 0; round < 50; ++round) {
    const int64_t n = 1 + round % 6;
    Tensor cost = torch::empty({n, n}, torch::kFloat64);
    for (int64_t i = 0; i < n * n; ++i) cost.data_ptr<double>()[i] = round % 3 ? rng.Uniform(-5, 5) : rng.Below(3);
    const auto sum = [&](const std::vector<int64_t>& column) {
      double total = 0;
      for (int64_t i = 0; i < n; ++i) total += cost[i][column[static_cast<size_t>(i)]].item<double>();
      return total;
    };
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    double least = std::numeric_limits<double>::infinity();
    do {
      least = std::min(least, sum(order));
    } while (std::next_permutation(order.begin(), order.end()));
    const std::vector<int64_t> assigned = Assign(cost);
    EXPECT_EQ(std::set<int64_t>(assigned.begin(), assigned.end()).size(), static_cast<size_t>(n));
    EXPECT_NEAR(sum(assigned), least, 1e-9);
  }
}

TEST(MatchClusters, FindsTheOrderOfTurnedDirections) {
  Rng rng(3);
  for (int round = 0; round < 5; ++round) {
    const Tensor a = UnitRows(NormalNumbers({15, 10}, &rng));
    std::vector<int64_t> order(15);
    std::iota(order.begin(), order.end(), int64_t{0});
    rng.Shuffle(&order);
    const Tensor turn = std::get<0>(torch::linalg_qr(NormalNumbers({10, 10}, &rng)));
    const Tensor b = UnitRows(torch::matmul(a.index_select(0, torch::tensor(order)), turn.t()) +
                              0.02 * NormalNumbers({15, 10}, &rng));
    const ClusterMatch match = MatchClusters(a, b, &rng);
    EXPECT_GT(match.agreement, 0.9);
    for (int64_t i = 0; i < 15; ++i) {
      EXPECT_EQ(order[static_cast<size_t>(match.partner[static_cast<size_t>(i)])], i);
    }
  }
}

}  // namespace
}  // namespace lightcone
