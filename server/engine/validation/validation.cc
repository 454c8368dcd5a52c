#include "server/engine/validation/validation.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/number_text.h"
#include "base/status.h"
#include "index/api/search.h"
#include "server/engine/validation/both_queries.h"
#include "server/engine/validation/probe_calibration.h"
#include "server/engine/validation/probe_figures.h"
#include "server/engine/validation/probe_mixture.h"
#include "server/engine/validation/verdict.h"

namespace lightcone::server {
namespace {

constexpr size_t kCommonMin = 50;          // fewest items of a mixture
constexpr size_t kHeldOutProbesMin = 120;  // fewest probes of a mixture of held-out items, twice a calibration's half
// The part of the named share that may be missing later: items come in while an operator decides.
constexpr double kShareFallMax = 0.02;

// Queries of one generation's space, bound to rows of another's: through `carry_query`, or by their leading numbers.
absl::StatusOr<RankingWay> WayOf(const ProbeVectors& vectors, const Space& query_space, const Space& row_space,
                                 const Adapter* carry_query, const Adapter* carry_rows) {
  RankingWay way;
  way.carry = carry_rows;
  for (const auto& z : vectors) {
    std::optional<BoundQuery>& to = way.queries.emplace_back();
    if (!z) continue;
    if (z->empty()) {
      way.failed.push_back(way.queries.size() - 1);
      continue;
    }
    std::vector<float> carried(z->begin(), z->end());
    Space space = query_space;
    if (carry_query != nullptr) {
      carried.resize(static_cast<size_t>(carry_query->output_dimension()));
      carry_query->ApplyOne(*z, carried);
      space = row_space;
    } else if (row_space.dimension < query_space.dimension) {
      carried.resize(static_cast<size_t>(row_space.dimension));
      space = LeadingSpace(query_space, row_space.dimension);
    }
    auto bound = BoundQuery::Make(space, row_space, carried);
    // If an adapter makes no vector of a query, a search would fail. So the query finds nothing here.
    if (absl::IsInvalidArgument(bound.status())) {
      way.failed.push_back(way.queries.size() - 1);
      continue;
    }
    LC_RETURN_IF_ERROR(bound.status());
    to = *std::move(bound);
  }
  return way;
}

// Sets what searches miss of an item way before its segments are carried over. Until then they rank candidates that
// another way finds: a query adapter before compatible training, as in server/engine/search/search.cc.
// `ranks`: those of the old generation itself, then those of each way of the pair.
void CountMissed(const std::vector<std::vector<QueryRanking>>& ranks, PairReport* pair) {
  constexpr size_t kFirst = 5;
  std::optional<size_t> finder, item;
  for (size_t w = 0; w < pair->ways.size(); ++w) {
    const WayReport& way = pair->ways[w];
    if (way.way == AdapterMode::kItem) {
      item = w;
    } else if (way.in_reach && (!finder || way.way == AdapterMode::kQuery)) {
      finder = w;
    }
  }
  if (!finder || !item) return;
  size_t measured = 0, missed = 0;
  for (size_t p = 0; p < ranks[*item + 1].size(); ++p) {
    const size_t ranked = ranks[*item + 1][p].first;
    const size_t found = ranks[*finder + 1][p].first;  // 0: The adapter makes no vector of the query.
    measured += ranked > 0;
    missed += ranked > 0 && ranked <= kFirst && (found == 0 || found > size_t{kAdaptedCandidatesMin});
  }
  if (measured > 0) pair->ways[*item].missed = static_cast<double>(missed) / static_cast<double>(measured);
}

// What distances say, if they say enough.
std::optional<RelevanceCurve> CurveOf(const RankedDistances& distances) {
  absl::StatusOr<RelevanceCurve> curve = LearnRelevance(distances.nearest, distances.relevant);
  return curve.ok() ? std::optional(*std::move(curve)) : std::nullopt;
}

// The shares of a pair's mixtures: kMixtureShares, then the gallery's own, unless it makes the same mixture as the one
// below it. `items`: those of a mixture.
std::vector<double> SharesOf(double embedded, size_t items) {
  std::vector<double> shares(kMixtureShares.begin(), kMixtureShares.end());
  const double below = *std::prev(std::upper_bound(shares.begin(), shares.end(), embedded));
  if (CountItemsAnew(below, items) != CountItemsAnew(embedded, items)) shares.push_back(embedded);
  return shares;
}

class Validation {
 public:
  Validation(const ValidationInput& input, const RankingRun& run)
      : input_(input), run_(run), state_(*input.state), newer_(*state_.Find(input.generation)) {}

  absl::StatusOr<ValidationReport> Run();

 private:
  struct MixtureEnds {
    ProbeMeasures old_items, new_items;
  };
  struct Way {
    AdapterMode mode = AdapterMode::kNone;
    bool in_reach = true;
    RankingWay way;
  };

  // What the mixtures of a pair are made of and held against.
  struct MixtureBase {
    std::vector<double> shares;  // SharesOf the gallery
    ProbeMeasures old_self;      // the older generation's own queries on the common items
    double old_map = 0;          // its mAP
  };

  // The older generation's own queries beside a way: one of the pair's reports of both.
  struct Beside {
    size_t way = 0;                                     // place among the ways
    std::vector<std::vector<DistanceFusion>> by_share;  // one a probe, by place in kOlderShares
    // One a probe, by the share that it is measured with, and the likenesses that they take.
    std::vector<DistanceFusion> fusions;
    ProbeLikenesses likenesses;
  };
  struct PairWays {
    OlderWays self;         // the older generation's own queries
    bool on_scale = false;  // whether fused distances are on the scale of the newer generation's own
    std::vector<Way> ways;
    std::vector<Beside> beside;
  };

  absl::StatusOr<const ProbeVectors*> VectorsOf(uint32_t generation);
  absl::StatusOr<RankingWay> Self(uint32_t generation);
  absl::StatusOr<std::vector<Way>> WaysTo(const GenerationRecord& older);
  absl::Status MeasurePair(const GenerationRecord& older, PairReport* pair);
  // What searches that carry vectors of both generations would learn, beside every way that is in reach.
  absl::Status FillBeside(const GenerationRecord& older, PairWays* all);
  // What fused rankings are measured by: ranks, and the nearest older rows but those of items that the newer generation
  // embedded, by share; and the nearest of these.
  struct FusedRanks {
    std::span<const std::vector<QueryRanking>> ranks;
    std::span<const std::vector<NearestRow>> nearest;
    std::span<const NearestRow> newer;
    std::span<const RankedDistances> distances;
  };
  // Fills a report of both queries beside each way, and chooses shares.
  void ReportBoth(const ProbeMeasures& old_self, FusedRanks by_share, PairWays* ways, PairReport* pair);
  // Fills the mixture of each way, the verdict, P_com and P_up.
  absl::Status MeasureCommon(const GenerationRecord& older, const PairWays& all, PairReport* pair);
  // Fills P_com and P_up. `ends`: those of each way. REQUIRES: the pair has ways.
  absl::Status MeasureReached(const CommonItems& common, const PairWays& all, const RankingWay& newer_self,
                              const ProbeMeasures& old_self, std::vector<MixtureEnds> ends, PairReport* pair);
  // Measures mixtures by the plain distance and, if wanted, calibrated; the distances of both queries are on the newer
  // generation's scale already. Sets `ends` to the measures of a gallery of old items alone and of new items alone.
  absl::Status MeasureMixture(const CommonItems& common, const CommonItems::Leg& older, const CommonItems::Leg& newer,
                              const MixtureBase& base, WayReport* way, MixtureEnds* ends);
  // Measures on the new generation's own items, and fills of_newer_, which pairs need.
  absl::Status MeasureNewer(ValidationReport* report);
  // If the new generation has embedded every item: compares its own queries with those of the generation that serves,
  // on items that both embedded.
  absl::Status MeasureReplaced(const GenerationRecord& active, PairReport* pair);
  // A generation's own queries on common items. With `has`, failed queries count as in WithFailed.
  absl::StatusOr<ProbeMeasures> MeasureSelf(const CommonItems& common, uint32_t generation,
                                            const ProbeMeasures* has = nullptr);

  const ValidationInput& input_;
  const RankingRun& run_;
  const CollectionState& state_;
  const GenerationRecord& newer_;
  std::vector<ProbeTarget> targets_;
  std::map<uint32_t, ProbeVectors> vectors_;
  NearestRows of_newer_;  // nearest of the new generation's own rows; by its own queries first
};

absl::StatusOr<const ProbeVectors*> Validation::VectorsOf(uint32_t generation) {
  const auto known = vectors_.find(generation);
  if (known != vectors_.end()) return &known->second;
  run_.report(StrCat("vectors of the probes by generation ", generation));
  LC_ASSIGN_OR_RETURN(ProbeVectors made, input_.vectors(*state_.Find(generation)));
  return &vectors_.emplace(generation, std::move(made)).first->second;
}

absl::StatusOr<RankingWay> Validation::Self(uint32_t generation) {
  const Space& space = state_.Find(generation)->space;
  LC_ASSIGN_OR_RETURN(const ProbeVectors* vectors, VectorsOf(generation));
  return WayOf(*vectors, space, space, nullptr, nullptr);
}

absl::StatusOr<std::vector<Validation::Way>> Validation::WaysTo(const GenerationRecord& older) {
  const Reach& reach = state_.reach;
  LC_ASSIGN_OR_RETURN(const ProbeVectors* vectors, VectorsOf(newer_.generation));
  std::vector<Way> ways;
  const bool native = reach.IsNative(newer_.generation, older.generation);
  // Models of one shape that do not claim to be compatible are measured too, so that the figures show why.
  if (native || SameSpace(newer_.space, older.space)) {
    LC_ASSIGN_OR_RETURN(RankingWay way, WayOf(*vectors, newer_.space, older.space, nullptr, nullptr));
    ways.push_back({AdapterMode::kNone, native, std::move(way)});
  }
  if (const ServedAdapter* query = reach.Between(newer_.generation, older.generation, AdapterMode::kQuery)) {
    LC_ASSIGN_OR_RETURN(RankingWay way, WayOf(*vectors, newer_.space, older.space, &query->adapter, nullptr));
    ways.push_back({AdapterMode::kQuery, true, std::move(way)});
  }
  if (const ServedAdapter* item = reach.Between(older.generation, newer_.generation, AdapterMode::kItem)) {
    LC_ASSIGN_OR_RETURN(RankingWay way, WayOf(*vectors, newer_.space, newer_.space, nullptr, &item->adapter));
    ways.push_back({AdapterMode::kItem, true, std::move(way)});
  }
  return ways;
}

absl::Status Validation::FillBeside(const GenerationRecord& older, PairWays* all) {
  RowSamples samples(input_.collection->store(), input_.collection->number());
  const PinnedView view = input_.collection->Pin();
  LC_ASSIGN_OR_RETURN(const RowSamplePtr rows, samples.Of(*view, older.generation));
  LC_ASSIGN_OR_RETURN(const ProbeVectors* vectors, VectorsOf(older.generation));
  LC_ASSIGN_OR_RETURN(RankingWay self, Self(older.generation));
  all->self = OlderWaysOf(rows, *vectors, older.space, std::move(self));
  LC_ASSIGN_OR_RETURN(const RankingWay newer_self, Self(newer_.generation));
  LC_ASSIGN_OR_RETURN(const ScaleSamplePtr scale,
                      samples.ScaleOf(*view, older.generation, newer_.generation, rows,
                                      state_.reach.Adapters(older.generation, newer_.generation)));
  all->on_scale = scale->TellsScale();
  for (size_t w = 0; w < all->ways.size(); ++w) {
    const Way& way = all->ways[w];
    if (!way.in_reach) continue;
    RowSamplePtr seen = rows;
    if (way.mode == AdapterMode::kItem) {
      seen = samples.CarriedOf(rows, *state_.reach.Between(older.generation, newer_.generation, AdapterMode::kItem));
    }
    all->beside.push_back({w, FusionsOf(all->self, *vectors, {way.way, seen, newer_self, scale}), {}, {}});
  }
  return absl::OkStatus();
}

void Validation::ReportBoth(const ProbeMeasures& old_self, FusedRanks by_share, PairWays* ways, PairReport* pair) {
  for (Beside& beside : ways->beside) {
    const Way& way = ways->ways[beside.way];
    const size_t shares = beside.by_share.size();
    LC_DCHECK(by_share.ranks.size() >= shares && by_share.nearest.size() == by_share.ranks.size());
    std::vector<ProbeMeasures> measured, standing;
    for (size_t s = 0; s < shares; ++s) {
      measured.push_back(WithFailed(MeasuresOf(by_share.ranks[s]), way.way, old_self));
      standing.push_back(WithFailed(AsItStands(measured[s], by_share.nearest[s], by_share.newer), way.way, old_self));
    }
    by_share.ranks = by_share.ranks.subspan(shares);
    by_share.nearest = by_share.nearest.subspan(shares);
    const std::span<const RankedDistances> distances = by_share.distances.first(shares);
    by_share.distances = by_share.distances.subspan(shares);
    const ChosenShares chosen = ChooseShares(standing, old_self);
    const ProbeMeasures both = MeasuresBy(measured, chosen);
    beside.fusions = FusionsBy(beside.by_share, chosen);
    beside.likenesses = LikenessesBy(ways->self.likenesses, chosen);
    WayReport& report = pair->both.emplace_back();
    report.way = way.mode;
    report.older = kOlderShares[chosen.all];
    if (ways->on_scale) report.relevance = CurveOf(distances[chosen.all]);
    report.figures = FiguresOf(both);
    FillGains(input_.measure, both, old_self, &report);
  }
}

absl::Status Validation::MeasurePair(const GenerationRecord& older, PairReport* pair) {
  PairWays all;
  LC_ASSIGN_OR_RETURN(all.ways, WaysTo(older));
  LC_RETURN_IF_ERROR(FillBeside(older, &all));
  std::vector<RankingWay> ways = {all.self.plain};
  for (const Way& way : all.ways) ways.push_back(way.way);
  std::vector<FusedRanking> fused;
  for (const Beside& beside : all.beside) {
    for (size_t s = 0; s < beside.by_share.size(); ++s) {
      const ProbeLikenesses* const likenesses = kOlderShares[s].conditioned ? &all.self.likenesses : nullptr;
      fused.push_back({0, beside.way + 1, beside.by_share[s], likenesses});
    }
  }
  NearestRows of_older;
  of_older.left_out = &of_newer_.ids;
  std::vector<RankedDistances> distances(ways.size() + fused.size());
  LC_ASSIGN_OR_RETURN(const auto ranks,
                      RankGallery(input_.collection, older.generation, older.space, ways, targets_, run_, &pair->items,
                                  fused, fused.empty() ? nullptr : &of_older, &distances));
  const ProbeMeasures old_self = MeasuresOf(ranks[0]);
  pair->old_self = FiguresOf(old_self);
  pair->old_relevance = CurveOf(distances[0]);
  for (size_t w = 0; w < all.ways.size(); ++w) {
    const ProbeMeasures cross = WithFailed(MeasuresOf(ranks[w + 1]), all.ways[w].way, old_self);
    WayReport& report = pair->ways.emplace_back();
    report.way = all.ways[w].mode;
    report.in_reach = all.ways[w].in_reach;
    report.figures = FiguresOf(cross);
    report.relevance = CurveOf(distances[w + 1]);
    FillGains(input_.measure, cross, old_self, &report);
  }
  if (!fused.empty()) {
    const size_t first = ways.size();
    ReportBoth(old_self,
               {std::span(ranks).subspan(first), std::span(of_older.rows).subspan(first), of_newer_.rows[0],
                std::span(distances).subspan(first)},
               &all, pair);
  }
  CountMissed(ranks, pair);
  return MeasureCommon(older, all, pair);
}

absl::Status Validation::MeasureCommon(const GenerationRecord& older, const PairWays& all, PairReport* pair) {
  const std::vector<Way>& ways = all.ways;
  std::vector<const GenerationRecord*> generations = {&older, &newer_};
  const uint32_t reference = input_.reference_generation;
  if (reference != 0 && reference != older.generation) generations.push_back(state_.Find(reference));
  run_.report(StrCat("items that generations ", older.generation, " and ", newer_.generation, " both embedded"));
  const auto adapters = state_.reach.Adapters(older.generation, newer_.generation);
  LC_ASSIGN_OR_RETURN(const CommonItems common,
                      CommonItems::ReadHeldOut(input_.collection, generations, adapters, targets_,
                                               {kCommonMin, kHeldOutProbesMin}, run_, &pair->fitted_pairs));
  pair->common_items = common.size();
  pair->common_fitted = !adapters.empty() && !common.held_out();
  if (common.size() < kCommonMin) {
    const std::string few = StrCat("both embedded ", common.size(), " items; ", kCommonMin, " are needed");
    for (WayReport& way : pair->ways) {
      if (input_.calibrate && way.in_reach) way.calibration.emplace().none_because = few;
    }
    Decide(input_.tolerance, input_.measure, pair);
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const RankingWay newer_self, Self(newer_.generation));
  const double embedded = EmbeddedShare(input_.collection->progress(), newer_.generation, older.generation);
  MixtureBase base{SharesOf(embedded, common.size()), {}, 0};
  LC_ASSIGN_OR_RETURN(base.old_self, MeasureSelf(common, older.generation));
  base.old_map = MeanOf(base.old_self.ap).value;
  std::vector<MixtureEnds> ends(ways.size());
  for (size_t w = 0; w < ways.size(); ++w) {
    run_.report(StrCat("mixtures of generations ", older.generation, " and ", newer_.generation));
    LC_RETURN_IF_ERROR(MeasureMixture(common, {older.generation, &ways[w].way}, {newer_.generation, &newer_self}, base,
                                      &pair->ways[w], &ends[w]));
  }
  for (size_t b = 0; b < all.beside.size(); ++b) {
    const Beside& beside = all.beside[b];
    MixtureEnds unused;
    const CommonItems::Leg both{older.generation, &ways[beside.way].way, {},
                                &all.self.plain,  beside.fusions,        &beside.likenesses};
    LC_RETURN_IF_ERROR(MeasureMixture(common, both, {newer_.generation, &newer_self}, base, &pair->both[b], &unused));
  }
  Decide(input_.tolerance, input_.measure, pair, embedded);
  if (pair->ways.empty()) {
    LC_ASSIGN_OR_RETURN(const ProbeMeasures newer_own, MeasureSelf(common, newer_.generation, &base.old_self));
    FillOwnGains(input_.measure, newer_own, base.old_self, pair);
    return absl::OkStatus();
  }
  return MeasureReached(common, all, newer_self, base.old_self, std::move(ends), pair);
}

absl::Status Validation::MeasureReached(const CommonItems& common, const PairWays& all, const RankingWay& newer_self,
                                        const ProbeMeasures& old_self, std::vector<MixtureEnds> ends,
                                        PairReport* pair) {
  LC_DCHECK(!pair->ways.empty() && ends.size() == pair->ways.size());
  // P_com and P_up are about the way that searches take. If searches take none, about the way that finds most.
  const auto before = [&](const WayReport& a, const WayReport& b) {
    const auto key = [&](const WayReport& way) {
      const bool taken = pair->verdict == Verdict::kPassed && way.way == pair->chosen;
      return std::tuple(taken, way.in_reach, FigureOf(input_.measure, way.figures));
    };
    return key(a) < key(b);
  };
  const auto best = std::max_element(pair->ways.begin(), pair->ways.end(), before);
  const size_t chosen = static_cast<size_t>(best - pair->ways.begin());
  const MixtureEnds of_best = {WithFailed(std::move(ends[chosen].old_items), all.ways[chosen].way, old_self),
                               WithFailed(std::move(ends[chosen].new_items), newer_self, old_self)};
  FillOwnGains(input_.measure, of_best.new_items, old_self, pair);
  ProbeMeasures base = of_best.new_items;  // what to reach for, unless there is a reference
  const auto put = [](ProbeQuotient share, std::optional<double>* value, std::optional<Estimate>* interval) {
    *value = share.value;
    *interval = share.interval;
  };
  if (const uint32_t reference = input_.reference_generation; reference != 0) {
    LC_ASSIGN_OR_RETURN(base, MeasureSelf(common, reference));
    put(PUpOf(of_best.new_items.cmc1, base.cmc1), &pair->p_up_cmc1, &pair->p_up_cmc1_interval);
    put(PUpOf(of_best.new_items.ap, base.ap), &pair->p_up_map, &pair->p_up_map_interval);
  }
  put(PComOf(of_best.old_items.cmc1, old_self.cmc1, base.cmc1), &pair->p_com_cmc1, &pair->p_com_cmc1_interval);
  put(PComOf(of_best.old_items.ap, old_self.ap, base.ap), &pair->p_com_map, &pair->p_com_map_interval);
  return absl::OkStatus();
}

absl::Status Validation::MeasureMixture(const CommonItems& common, const CommonItems::Leg& older,
                                        const CommonItems::Leg& newer, const MixtureBase& base, WayReport* way,
                                        MixtureEnds* ends) {
  // The gate judges ways of the new query that are in reach, so the others need no gallery's own share.
  const bool judged = way->in_reach && !way->older;
  const bool calibrate = input_.calibrate && judged;
  HalvedCounts counts;
  const auto count = [&](size_t probe, const CommonItems::Distances& distances) { counts.Add(probe, distances); };
  const std::span<const double> shares = judged ? base.shares : std::span<const double>(kMixtureShares);
  LC_ASSIGN_OR_RETURN(auto ranks, common.Rank(older, newer, shares, targets_, run_,
                                              calibrate ? CommonItems::SeeDistances(count) : nullptr));
  *ends = {MeasuresOf(ranks.front()), MeasuresOf(ranks[kMixtureShares.size() - 1])};
  way->mixture = PointsOf(ranks, kMixtureShares);
  way->dips = Dips(way->mixture, base.old_map);
  if (calibrate) {
    std::vector<std::vector<QueryRanking>> calibrated;
    LC_ASSIGN_OR_RETURN(way->calibration, MeasureCalibration(common, older, newer, counts, ranks, shares, targets_,
                                                             base.old_map, run_, &calibrated));
    if (way->calibrated()) ranks = std::move(calibrated);
  }
  if (!judged) return absl::OkStatus();
  return FillShareGains(input_.measure, ranks, shares, older, newer, base.old_self, base.old_map, run_, way);
}

absl::StatusOr<ProbeMeasures> Validation::MeasureSelf(const CommonItems& common, uint32_t generation,
                                                      const ProbeMeasures* has) {
  LC_ASSIGN_OR_RETURN(const RankingWay way, Self(generation));
  const double none[] = {0};
  LC_ASSIGN_OR_RETURN(const auto ranks, common.Rank({generation, &way}, {generation, &way}, none, targets_, run_));
  ProbeMeasures measures = MeasuresOf(ranks[0]);
  return has == nullptr ? std::move(measures) : WithFailed(std::move(measures), way, *has);
}

absl::Status Validation::MeasureReplaced(const GenerationRecord& active, PairReport* pair) {
  pair->item_generation = active.generation;
  pair->replaced = true;
  const std::vector<const GenerationRecord*> generations = {&active, &newer_};
  LC_ASSIGN_OR_RETURN(const CommonItems common, CommonItems::Read(input_.collection, generations, run_));
  pair->items = pair->common_items = common.size();
  if (common.size() > 0) {
    LC_ASSIGN_OR_RETURN(const ProbeMeasures before, MeasureSelf(common, active.generation));
    LC_ASSIGN_OR_RETURN(const ProbeMeasures now, MeasureSelf(common, newer_.generation, &before));
    pair->old_self = FiguresOf(before);
    WayReport& way = pair->ways.emplace_back();
    way.figures = FiguresOf(now);
    FillGains(input_.measure, now, before, &way);
  }
  Decide(input_.tolerance, input_.measure, pair);
  return absl::OkStatus();
}

absl::Status Validation::MeasureNewer(ValidationReport* report) {
  LC_ASSIGN_OR_RETURN(RankingWay self, Self(newer_.generation));
  std::vector<RankingWay> ways = {std::move(self)};
  std::vector<PairReport*> of;
  for (PairReport& pair : report->pairs) {
    // After a rollback, old queries meet new items: plainly, or carried by the item adapter.
    const GenerationRecord& older = *state_.Find(pair.item_generation);
    const ServedAdapter* item = state_.reach.Between(older.generation, newer_.generation, AdapterMode::kItem);
    if (item == nullptr && !SameSpace(older.space, newer_.space)) continue;
    LC_ASSIGN_OR_RETURN(const ProbeVectors* vectors, VectorsOf(older.generation));
    LC_ASSIGN_OR_RETURN(RankingWay way, WayOf(*vectors, older.space, newer_.space,
                                              item == nullptr ? nullptr : &item->adapter, nullptr));
    ways.push_back(std::move(way));
    of.push_back(&pair);
  }
  uint64_t items = 0;
  std::vector<RankedDistances> distances(1);
  LC_ASSIGN_OR_RETURN(const auto ranks, RankGallery(input_.collection, newer_.generation, newer_.space, ways, targets_,
                                                    run_, &items, {}, &of_newer_, &distances));
  if (items == 0) return absl::OkStatus();
  report->new_self = FiguresOf(MeasuresOf(ranks[0]));
  report->new_relevance = CurveOf(distances[0]);
  for (size_t i = 0; i < of.size(); ++i) of[i]->reverse = FiguresOf(MeasuresOf(ranks[i + 1]));
  return absl::OkStatus();
}

absl::StatusOr<ValidationReport> Validation::Run() {
  ValidationReport report;
  report.tolerance = input_.tolerance;
  report.measure = input_.measure;
  report.reference_generation = input_.reference_generation;
  report.probe_sets = state_.record.probe_sets;
  report.adapters = state_.reach.VersionsOf(newer_.generation);
  run_.report("what the probes have to find");
  LC_ASSIGN_OR_RETURN(ProbeTargets found, FindTargets(*input_.collection, *input_.sets, run_.cancelled));
  targets_ = std::move(found.targets);
  report.missing_items = found.missing_items;
  report.probes = targets_.size();
  for (const ProbeTarget& target : targets_) {
    const auto others =
        std::count_if(target.relevant->begin(), target.relevant->end(), [&](uint64_t id) { return id != target.own; });
    report.probes_without += others == 0;
  }
  for (const uint32_t g : OlderHeads(input_.collection->progress(), newer_.generation)) {
    if (state_.Find(g) == nullptr || state_.Find(g)->retired) continue;
    report.pairs.emplace_back().item_generation = g;
  }
  LC_RETURN_IF_ERROR(MeasureNewer(&report));
  for (PairReport& pair : report.pairs) LC_RETURN_IF_ERROR(MeasurePair(*state_.Find(pair.item_generation), &pair));
  const uint32_t active = state_.record.active_generation;
  if (report.pairs.empty() && report.new_self && active != 0 && active != newer_.generation) {
    LC_RETURN_IF_ERROR(MeasureReplaced(*state_.Find(active), &report.pairs.emplace_back()));
  }
  report.passed = std::all_of(report.pairs.begin(), report.pairs.end(),
                              [](const PairReport& pair) { return pair.verdict == Verdict::kPassed; });
  report.time = absl::Now();
  return report;
}

// OK while the gallery is embedded anew to the shares that let the report pass, or the generation serves already.
absl::Status CheckShares(const CollectionState& state, const ProgressRecord& progress, uint32_t generation,
                         const ValidationReport& report) {
  if (!report.passed || state.record.active_generation == generation) return absl::OkStatus();
  for (const PairReport& pair : report.pairs) {
    if (pair.judged_share <= 0) continue;
    const double needed = pair.passes_from_share.value_or(pair.judged_share);
    const double now = EmbeddedShare(progress, generation, pair.item_generation);
    if (now >= needed * (1 - kShareFallMax)) continue;
    return FailedPrecondition(StrCat("it needs ", PercentText(needed), " of the items of generation ",
                                     pair.item_generation, " embedded anew, and ", PercentText(now),
                                     " are now: validate it again"));
  }
  return absl::OkStatus();
}

}  // namespace

double EmbeddedShare(const ProgressRecord& progress, uint32_t generation, uint32_t older) {
  uint64_t all = 0, anew = 0, left = 0;
  for (const auto& [generations, count] : progress.items) {
    if (!std::binary_search(generations.begin(), generations.end(), older)) continue;
    const uint32_t head = HeadGeneration(generations, generation);
    all += count;
    if (head == generation) anew += count;
    if (head == older) left += count;
  }
  return left == 0 ? 1 : static_cast<double>(anew) / static_cast<double>(all);
}

bool ReachesNamedShares(const ProgressRecord& progress, uint32_t generation, const ValidationReport& report) {
  bool any = false;
  for (const PairReport& pair : report.pairs) {
    if (pair.verdict == Verdict::kPassed) continue;
    if (!pair.passes_from_share) return false;
    if (EmbeddedShare(progress, generation, pair.item_generation) < *pair.passes_from_share) return false;
    any = true;
  }
  return any;
}

std::vector<uint32_t> OlderHeads(const ProgressRecord& progress, uint32_t generation) {
  std::set<uint32_t> heads;
  for (const auto& [generations, count] : progress.items) {
    const uint32_t head = HeadGeneration(generations, generation);
    if (count > 0 && head < generation) heads.insert(head);
  }
  return {heads.begin(), heads.end()};
}

absl::Status CheckCurrent(const CollectionState& state, const ProgressRecord& progress, uint32_t generation,
                          const ValidationReport& report) {
  if (report.probe_sets != state.record.probe_sets) {
    return FailedPrecondition("its probe sets have changed since: validate it again");
  }
  if (!state.reach.Saw(generation, report.adapters)) {
    return FailedPrecondition("its adapters have changed since: validate it again");
  }
  const uint32_t active = state.record.active_generation;
  if (report.pairs.empty() && !progress.items.empty() && active != 0 && active != generation) {
    return FailedPrecondition("it found nothing to measure, and items came since: validate it again");
  }
  for (const PairReport& pair : report.pairs) {
    if (!pair.replaced || active == 0 || active == generation || pair.item_generation == active) continue;
    return FailedPrecondition(StrCat("it was measured against generation ", pair.item_generation, ", and ", active,
                                     " serves now: validate it again"));
  }
  LC_RETURN_IF_ERROR(CheckShares(state, progress, generation, report));
  for (const uint32_t head : OlderHeads(progress, generation)) {
    const auto of_head = [head](const PairReport& pair) { return pair.item_generation == head && !pair.replaced; };
    if (std::none_of(report.pairs.begin(), report.pairs.end(), of_head)) {
      return FailedPrecondition(StrCat("items of generation ", head, " came since: validate it again"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ValidationReport> RunValidation(const ValidationInput& input, const RankingRun& run) {
  LC_RETURN_IF_ERROR(input.state->Resolve(input.generation).status());
  return Validation(input, run).Run();
}

}  // namespace lightcone::server
