#include "trainer/adapt/alignment.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/exceptions.h"
#include "base/rng.h"
#include "base/status.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/cluster_match_torch.h"
#include "trainer/adapt/options.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kClusters = 20;
constexpr int64_t kClusterings = 12;  // clusterings of a start, whose centres are matched
constexpr int64_t kPulls = 8;         // rotations of a start towards the mean of what lies near
constexpr int64_t kTurns = 16;        // rotations of a start by mutual matches
constexpr int64_t kRefinements = 8;   // ridge maps by mutual matches
constexpr int64_t kNear = 20;
constexpr int64_t kTurnedRows = 3'000, kMatchedRows = 6'000;  // source rows of a step
constexpr int64_t kTurnedTargets = 6'000;                     // target rows of a start's step
constexpr int64_t kScalingNear = 10;
constexpr int64_t kNearBlockRows = 500;
constexpr int64_t kMatchesMin = 64;  // fewer give no map
constexpr int64_t kComparedRows = 2'000, kComparedNear = 10;
constexpr int64_t kDirectionsMax = 256;  // principal directions in which the rows of a side are matched

// One model's rows: of unit length and around their mean, in an order drawn at random.
struct Side {
  Tensor rows;                  // [n, d] float32
  Tensor units;                 // the same, of unit length again
  std::vector<int64_t> row_of;  // row in what was given
};

// The rows in their principal directions, where they have more dimensions than are needed to tell them apart.
Tensor InFewDirections(const Tensor& rows) {
  if (rows.size(1) <= kDirectionsMax) return rows;
  const Tensor covariance = torch::matmul(rows.t(), rows).to(torch::kFloat64);
  const Tensor vectors = std::get<1>(torch::linalg_eigh(covariance));  // the greatest eigenvalues last
  return torch::matmul(rows, vectors.narrow(1, rows.size(1) - kDirectionsMax, kDirectionsMax).to(torch::kFloat32));
}

Side SideOf(std::span<const float> values, const Space& space, int64_t rows_max, Rng* rng) {
  const size_t d = static_cast<size_t>(space.dimension), n = values.size() / d;
  const size_t kept = std::min(n, static_cast<size_t>(rows_max));
  Side side;
  for (size_t i = 0; i < kept; ++i) side.row_of.push_back(static_cast<int64_t>(i * n / kept));
  rng->Shuffle(&side.row_of);
  side.rows = torch::empty({static_cast<int64_t>(kept), space.dimension}, torch::kFloat32);
  float* to = side.rows.data_ptr<float>();
  for (const int64_t row : side.row_of) {
    const std::span<const float> from = values.subspan(static_cast<size_t>(row) * d, d);
    to = std::copy(from.begin(), from.end(), to);
  }
  side.rows = UnitRows(side.rows);
  side.rows = InFewDirections(side.rows - side.rows.mean(0, /*keepdim=*/true));
  side.units = UnitRows(side.rows);
  return side;
}

absl::Status CheckSide(std::string_view name, std::span<const float> values, const Space& space) {
  const std::string field = StrCat("unpaired.", name);
  if (space.metric != Metric::kCosine) {
    return InvalidField(StrCat(field, ".metric"), MetricName(space.metric),
                        "cosine: only directions are matched without pairs");
  }
  if (space.dimension < 2 || space.dimension > kAdaptDimensionMax) {
    return InvalidField(StrCat(field, ".dimension"), StrCat(space.dimension), StrCat("2 .. ", kAdaptDimensionMax));
  }
  const size_t d = static_cast<size_t>(space.dimension), n = values.size() / d;
  if (values.size() != n * d) {
    return InvalidField(field, StrCat(values.size(), " numbers"), StrCat("rows of ", d));
  }
  if (static_cast<int64_t>(n) < kAlignRowsMin) {
    return InvalidField(field, StrCat(n, " rows"), StrCat("at least ", kAlignRowsMin));
  }
  for (size_t i = 0; i < n; ++i) {
    const std::span<const float> row = values.subspan(i * d, d);
    const double norm = NormOf(row);
    if (std::isfinite(norm) && norm <= kNormMax && norm >= kCosineNormMin) continue;
    LC_RETURN_IF_ERROR(CheckVector(space, row, StrCat(field, "[", i, "]")));
  }
  return absl::OkStatus();
}

Tensor Carried(const LinearMap& map, const Tensor& rows) {
  return UnitRows(torch::matmul(rows, map.w.t().to(torch::kFloat32)) + map.c.to(torch::kFloat32));
}

// Some rows of a side, others in every step.
Tensor Drawn(const Side& side, int64_t step, int64_t count) {
  const int64_t n = side.rows.size(0), wanted = std::min(n, count);
  return (torch::arange(wanted) + step * wanted).remainder(n);
}

// The mean of the `near` target rows that are nearest to each carried row.
Tensor MeanNear(const Tensor& carried, const Side& target, int64_t near) {
  Tensor means = torch::empty({carried.size(0), target.rows.size(1)}, torch::kFloat32);
  for (int64_t begin = 0; begin < carried.size(0); begin += kNearBlockRows) {
    const int64_t n = std::min(kNearBlockRows, carried.size(0) - begin);
    const Tensor similar = torch::matmul(carried.narrow(0, begin, n), target.units.t());
    const Tensor nearest = std::get<1>(similar.topk(near, 1, /*largest=*/true, /*sorted=*/false));
    const Tensor rows = target.rows.index_select(0, nearest.reshape({-1}));
    means.narrow(0, begin, n).copy_(rows.reshape({n, near, -1}).mean(1));
  }
  return means;
}

// Mutual best matches by cross-domain similarity local scaling: twice the similarity less the mean similarity of each
// of the two to its nearest rows, so that rows that are near to very many match none of them.
struct Matches {
  Tensor source, target;  // rows of the sides
  double share = 0;       // share of the source rows that were asked about
};

Matches MatchMutually(const LinearMap& map, const Side& source, const Tensor& asked, const Side& target) {
  const Tensor carried = Carried(map, source.rows.index_select(0, asked));
  Tensor scaled = torch::matmul(carried, target.units.t());
  const Tensor near_target = std::get<0>(scaled.topk(kScalingNear, 1)).mean(1, /*keepdim=*/true);
  const Tensor near_source = std::get<0>(scaled.topk(kScalingNear, 0)).mean(0, /*keepdim=*/true);
  scaled.mul_(2).sub_(near_target).sub_(near_source);
  const Tensor forth = scaled.argmax(1), back = scaled.argmax(0);
  const Tensor mutual = back.index_select(0, forth).eq(torch::arange(asked.size(0))).nonzero().squeeze(1);
  return {asked.index_select(0, mutual), forth.index_select(0, mutual),
          static_cast<double>(mutual.size(0)) / static_cast<double>(asked.size(0))};
}

class Aligner {
 public:
  Aligner(Side source, Side target, const AlignOptions& options, const AlignCallback& callback,
          const std::atomic<bool>* stop)
      : source_(std::move(source)), target_(std::move(target)), options_(options), callback_(callback), stop_(stop) {
    const int64_t few = std::min(kTurnedTargets, target_.rows.size(0));
    few_targets_.rows = target_.rows.narrow(0, 0, few);
    few_targets_.units = target_.units.narrow(0, 0, few);
  }

  absl::StatusOr<Alignment> Run() {
    torch::NoGradGuard no_grad;
    std::vector<Start> starts;
    size_t best = 0;
    double agreement = 0;
    for (int64_t i = 0; i < options_.starts && agreement < kAgreementMin; ++i) {
      step_ = i * kStartSteps;
      LC_ASSIGN_OR_RETURN(Start start, StartFrom(MixSeed({options_.seed, static_cast<uint64_t>(i), 0xa110u})));
      starts.push_back(std::move(start));
      for (size_t other = 0; other + 1 < starts.size(); ++other) {
        const double both = Agreement(starts[other], starts.back());
        if (both <= agreement) continue;
        agreement = both;
        best = starts[other].share >= starts.back().share ? other : starts.size() - 1;
      }
    }
    step_ = options_.starts * kStartSteps;
    LC_ASSIGN_OR_RETURN(Alignment alignment, Refined(starts[best].map));
    alignment.agreement = agreement;
    return alignment;
  }

 private:
  struct Start {
    LinearMap map;
    double share = 0;
    Tensor near;  // target rows nearest to some source rows as it carries them, [kComparedRows, kComparedNear]
  };

  absl::Status Stopped() const {
    return stop_ != nullptr && stop_->load() ? absl::CancelledError("stopped while rows were matched")
                                             : absl::OkStatus();
  }
  absl::Status Step() {
    LC_RETURN_IF_ERROR(Stopped());
    if (callback_) callback_({++step_, options_.starts * kStartSteps + kRefinements + 1});
    return absl::OkStatus();
  }

  static LinearMap Turn(const Tensor& x, const Tensor& y) {
    return {FitProcrustes(x, y, /*scaled=*/false), torch::zeros({y.size(1)}, torch::kFloat64)};
  }

  absl::StatusOr<Start> StartFrom(uint64_t seed) {
    Rng rng(seed);
    std::vector<Tensor> from, to;
    for (int64_t i = 0; i < kClusterings; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Tensor a = ClusterDirections(source_.units, kClusters, &rng);
      const Tensor b = ClusterDirections(target_.units, kClusters, &rng);
      from.push_back(a);
      to.push_back(b.index_select(0, torch::tensor(MatchClusters(a, b, &rng).partner)));
    }
    Start start{Turn(torch::cat(from), torch::cat(to)), 0, {}};
    for (int64_t i = 0; i < kPulls; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Tensor x = source_.rows.index_select(0, Drawn(source_, i, kTurnedRows));
      const Tensor y = MeanNear(Carried(start.map, x), few_targets_, kNear);
      start.map.w = (start.map.w + FitProcrustes(x, y, /*scaled=*/false)) / 2;
    }
    for (int64_t i = 0; i < kTurns; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Matches matches = MatchMutually(start.map, source_, Drawn(source_, i, kTurnedRows), few_targets_);
      start.share = matches.share;
      if (matches.source.size(0) < kMatchesMin) break;
      start.map = Turn(source_.rows.index_select(0, matches.source), few_targets_.rows.index_select(0, matches.target));
    }
    const Tensor carried = Carried(start.map, source_.rows.index_select(0, Drawn(source_, 0, kComparedRows)));
    start.near = std::get<1>(torch::matmul(carried, few_targets_.units.t()).topk(kComparedNear, 1));
    return start;
  }

  absl::StatusOr<Alignment> Refined(LinearMap map) {
    for (int64_t i = 0; i < kRefinements; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Matches matches = MatchMutually(map, source_, Drawn(source_, i, kMatchedRows), target_);
      if (matches.source.size(0) < kMatchesMin) break;
      map = FitRidge(source_.rows.index_select(0, matches.source), target_.rows.index_select(0, matches.target));
    }
    LC_RETURN_IF_ERROR(Step());
    const int64_t n = source_.rows.size(0);
    const Matches matches = MatchMutually(map, source_, torch::arange(n), target_);
    LC_RETURN_IF_ERROR(Stopped());
    Alignment alignment;
    for (int64_t i = 0; i < matches.source.size(0); ++i) {
      const auto row = [i](const Side& side, const Tensor& rows) {
        return side.row_of[static_cast<size_t>(rows[i].item<int64_t>())];
      };
      alignment.source.push_back(row(source_, matches.source));
      alignment.target.push_back(row(target_, matches.target));
    }
    alignment.looked_at = n;
    return alignment;
  }

  // Share of the target rows nearest to the same source rows that two starts have in common.
  static double Agreement(const Start& a, const Start& b) {
    return a.near.unsqueeze(2).eq(b.near.unsqueeze(1)).any(2).to(torch::kFloat32).mean().item<double>();
  }

  static constexpr int64_t kStartSteps = kClusterings + kPulls + kTurns;

  const Side source_, target_;
  Side few_targets_;  // the first rows of target_
  const AlignOptions options_;
  const AlignCallback& callback_;
  const std::atomic<bool>* const stop_;
  int64_t step_ = 0;
};

}  // namespace

absl::StatusOr<Alignment> AlignUnpaired(std::span<const float> source, const Space& source_space,
                                        std::span<const float> target, const Space& target_space,
                                        const AlignOptions& options, const AlignCallback& callback,
                                        const std::atomic<bool>* stop) {
  if (options.rows_max < kAlignRowsMin || options.rows_max > kAlignRowsMax) {
    return InvalidField("rows_max", StrCat(options.rows_max), StrCat(kAlignRowsMin, " .. ", kAlignRowsMax));
  }
  if (options.starts < 2 || options.starts > 20) return InvalidField("starts", StrCat(options.starts), "2 .. 20");
  LC_RETURN_IF_ERROR(CheckSide("source", source, source_space));
  LC_RETURN_IF_ERROR(CheckSide("target", target, target_space));
  try {
    Rng rng(MixSeed({options.seed, 0xa119u}));
    Side from = SideOf(source, source_space, options.rows_max, &rng);
    Side to = SideOf(target, target_space, options.rows_max, &rng);
    return Aligner(std::move(from), std::move(to), options, callback, stop).Run();
  } catch (...) {
    return Annotate(StatusOfException(), "match rows");
  }
}

}  // namespace lightcone
