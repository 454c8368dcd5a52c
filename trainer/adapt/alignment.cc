#include "trainer/adapt/alignment.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/exceptions.h"
#include "base/rng.h"
#include "base/status.h"
#include "trainer/adapt/closed_form_torch.h"
#include "trainer/adapt/cluster_match_torch.h"
#include "trainer/losses/mix_torch.h"

namespace lightcone {
namespace {

using torch::Tensor;

constexpr int64_t kClusters = 20;
constexpr int64_t kClusterings = 12;         // whose centres are matched; the best third of the matches are anchors
constexpr int64_t kPulls = 28, kTurns = 24;  // steps towards near rows, the first ones by rotations alone
constexpr int64_t kWideUntil = 20;           // steps that look at many near rows
constexpr int64_t kManyNear = 20, kFewNear = 8;
constexpr int64_t kMatches = 12, kTurnMatches = 5;  // steps by mutual matches, the first ones by rotations alone
constexpr int64_t kPulledRows = 4'000;
constexpr int64_t kCslsNear = 10;
constexpr int64_t kNearBlockRows = 500;

// One model's rows: of unit length and around their mean, in an order drawn at random.
struct Side {
  Tensor rows;                  // [n, d] float32
  Tensor units;                 // the same, of unit length again
  std::vector<int64_t> row_of;  // row in what was given
};

absl::StatusOr<Side> SideOf(std::string_view name, std::span<const float> values, const Space& space, int64_t rows_max,
                            Rng* rng) {
  const size_t d = static_cast<size_t>(space.dimension), n = values.size() / d;
  if (static_cast<int64_t>(n) < kAlignRowsMin) {
    return InvalidField(StrCat("unpaired.", name), StrCat(n, " rows"), StrCat("at least ", kAlignRowsMin));
  }
  for (size_t i = 0; i < n; ++i) {
    LC_RETURN_IF_ERROR(CheckVector(space, values.subspan(i * d, d), StrCat("unpaired.", name, "[", i, "]")));
  }
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
  side.rows = side.rows - side.rows.mean(0, /*keepdim=*/true);
  side.units = UnitRows(side.rows);
  return side;
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
  double share = 0;       // of the source rows
};

Matches MatchMutually(const LinearMap& map, const Side& source, const Tensor& asked, const Side& target) {
  const Tensor carried = Carried(map, source.rows.index_select(0, asked));
  Tensor scaled = torch::matmul(carried, target.units.t());
  const Tensor near_target = std::get<0>(scaled.topk(kCslsNear, 1)).mean(1, /*keepdim=*/true);
  const Tensor near_source = std::get<0>(scaled.topk(kCslsNear, 0)).mean(0, /*keepdim=*/true);
  scaled.mul_(2).sub_(near_target).sub_(near_source);
  const Tensor forth = scaled.argmax(1), back = scaled.argmax(0);
  const Tensor mutual = back.index_select(0, forth).eq(torch::arange(asked.size(0))).nonzero().squeeze(1);
  return {asked.index_select(0, mutual), forth.index_select(0, mutual),
          static_cast<double>(mutual.size(0)) / static_cast<double>(asked.size(0))};
}

class Aligner {
 public:
  Aligner(Side source, Side target, uint64_t seed, const AlignCallback& callback, const std::atomic<bool>* stop)
      : source_(std::move(source)), target_(std::move(target)), rng_(seed), callback_(callback), stop_(stop) {}

  absl::StatusOr<Alignment> Run() {
    torch::NoGradGuard no_grad;
    LC_ASSIGN_OR_RETURN(LinearMap map, Anchored());
    LC_RETURN_IF_ERROR(Pull(&map));
    return Match(map);
  }

 private:
  absl::Status Step() {
    if (stop_ != nullptr && stop_->load()) return absl::CancelledError("stopped while rows were matched");
    if (callback_) callback_({++step_, kClusterings + kPulls + kMatches});
    return absl::OkStatus();
  }

  LinearMap Turn(const Tensor& x, const Tensor& y) const {
    return {FitProcrustes(x, y, /*scaled=*/false), torch::zeros({y.size(1)}, torch::kFloat64)};
  }

  // The rotation between the centres of clusters that agree best.
  absl::StatusOr<LinearMap> Anchored() {
    std::vector<std::pair<double, std::pair<Tensor, Tensor>>> matched;
    for (int64_t i = 0; i < kClusterings; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Tensor a = ClusterDirections(source_.units, kClusters, &rng_);
      const Tensor b = ClusterDirections(target_.units, kClusters, &rng_);
      const ClusterMatch match = MatchClusters(a, b, &rng_);
      matched.push_back({match.agreement, {a, b.index_select(0, torch::tensor(match.partner))}});
    }
    std::stable_sort(matched.begin(), matched.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    std::vector<Tensor> from, to;
    for (int64_t i = 0; i < kClusterings / 3; ++i) {
      from.push_back(matched[static_cast<size_t>(i)].second.first);
      to.push_back(matched[static_cast<size_t>(i)].second.second);
    }
    return Turn(torch::cat(from), torch::cat(to));
  }

  absl::Status Pull(LinearMap* map) {
    for (int64_t i = 0; i < kPulls; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const Tensor x = source_.rows.index_select(0, Drawn(source_, i, kPulledRows));
      const Tensor y = MeanNear(Carried(*map, x), target_, i < kWideUntil ? kManyNear : kFewNear);
      if (i < kTurns) {
        map->w = (map->w + FitProcrustes(x, y, /*scaled=*/false)) / 2;
      } else {
        *map = FitRidge(x, y);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Alignment> Match(LinearMap map) {
    Matches matches;
    for (int64_t i = 0; i < kMatches; ++i) {
      LC_RETURN_IF_ERROR(Step());
      const bool turns = i < kTurnMatches;
      matches = MatchMutually(map, source_, Drawn(source_, i, turns ? kPulledRows : source_.rows.size(0)), target_);
      if (matches.source.size(0) < kAdaptPairsLeast) break;
      const Tensor x = source_.rows.index_select(0, matches.source), y = target_.rows.index_select(0, matches.target);
      map = turns ? Turn(x, y) : FitRidge(x, y);
    }
    Alignment alignment;
    alignment.matched_share = matches.share;
    for (int64_t i = 0; i < matches.source.size(0); ++i) {
      const auto row = [i](const Side& side, const Tensor& rows) {
        return side.row_of[static_cast<size_t>(rows[i].item<int64_t>())];
      };
      alignment.source.push_back(row(source_, matches.source));
      alignment.target.push_back(row(target_, matches.target));
    }
    return alignment;
  }

  static constexpr int64_t kAdaptPairsLeast = 64;  // fewer matches give no map

  const Side source_, target_;
  Rng rng_;
  const AlignCallback& callback_;
  const std::atomic<bool>* const stop_;
  int64_t step_ = 0;
};

absl::Status CheckSpace(const char* name, const Space& space) {
  if (space.metric == Metric::kCosine) return absl::OkStatus();
  return InvalidField(StrCat("unpaired.", name, ".metric"), MetricName(space.metric),
                      "cosine: only directions are matched without pairs");
}

}  // namespace

absl::StatusOr<Alignment> AlignUnpaired(std::span<const float> source, const Space& source_space,
                                        std::span<const float> target, const Space& target_space,
                                        const AlignOptions& options, const AlignCallback& callback,
                                        const std::atomic<bool>* stop) {
  LC_RETURN_IF_ERROR(CheckSpace("source", source_space));
  LC_RETURN_IF_ERROR(CheckSpace("target", target_space));
  if (options.rows_max < kAlignRowsMin || options.rows_max > 20'000) {
    return InvalidField("rows_max", StrCat(options.rows_max), StrCat(kAlignRowsMin, " .. 20000"));
  }
  Rng rng(MixSeed({options.seed, 0xa119u}));
  LC_ASSIGN_OR_RETURN(Side from, SideOf("source", source, source_space, options.rows_max, &rng));
  LC_ASSIGN_OR_RETURN(Side to, SideOf("target", target, target_space, options.rows_max, &rng));
  try {
    return Aligner(std::move(from), std::move(to), MixSeed({options.seed, 0xa110u}), callback, stop).Run();
  } catch (...) {
    return Annotate(StatusOfException(), "match rows");
  }
}

}  // namespace lightcone
