#include "server/engine/validation/probe_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/kernels.h"

namespace lightcone::server {
namespace {

constexpr size_t kBlockRows = 512;
constexpr size_t kBlockProbes = 1'024;
constexpr size_t kBlockRelevant = 4'000'000;  // relevant items, over all ways, that one pair of walks remembers

struct Block {
  std::vector<uint64_t> ids;
  std::vector<float> rows;
  std::vector<RowFactors> factors;
};

// One probe's state in one way.
struct Standing {
  float best = -std::numeric_limits<float>::infinity();  // highest score of a row that counts for the nearest
  bool best_is_relevant = false;
  std::vector<float> relevant;  // scores, sorted from the highest after the first walk
  std::vector<uint32_t> ahead;  // [j]: count of others that outrank relevant item j but not j - 1
  // The nearest rows' scores, and whether they are relevant: a heap with the farthest in front.
  std::vector<std::pair<float, bool>> top;
};

class BlockRanker {
 public:
  BlockRanker(Collection* collection, uint32_t generation, const Space& space, std::span<const RankingWay> ways,
              std::span<const FusedRanking> fused, std::span<const ProbeTarget> targets, size_t begin, size_t end,
              const RankingRun& run, NearestRows* nearest, std::vector<RankedDistances>* distances)
      : collection_(collection),
        generation_(generation),
        space_(space),
        ways_(ways),
        fused_(fused),
        targets_(targets),
        begin_(begin),
        end_(end),
        run_(run),
        nearest_(nearest),
        distances_(distances),
        scored_(ways.size()),
        standings_(ways.size() + fused.size(), std::vector<Standing>(end - begin)) {}

  absl::Status Rank(std::vector<std::vector<QueryRanking>>* out, uint64_t* items) {
    for (size_t p = begin_; p < end_; ++p) {
      for (const uint64_t id : *targets_[p].relevant) {
        if (id != targets_[p].own) wanted_.insert(id);
      }
    }
    *items = 0;
    LC_RETURN_IF_ERROR(Walk([&](const Block& block) {
      *items += block.ids.size();
      if (nearest_ != nullptr) nearest_->ids.AddMany(block.ids);
      ScoreRelevant(block);
    }));
    for (auto& way : standings_) {
      for (Standing& standing : way) {
        std::sort(standing.relevant.begin(), standing.relevant.end(), std::greater<>());
        standing.ahead.assign(standing.relevant.size(), 0);
      }
    }
    LC_RETURN_IF_ERROR(Walk([&](const Block& block) { ScoreOthers(block); }));
    for (size_t w = 0; w < standings_.size(); ++w) {
      for (size_t p = begin_; p < end_; ++p) (*out)[w][p] = Summarise(standings_[w][p - begin_]);
    }
    if (nearest_ != nullptr) TellNearest();
    if (distances_ != nullptr) CountDistances();
    return absl::OkStatus();
  }

 private:
  absl::Status Walk(const std::function<void(const Block&)>& see) {
    Block block;
    const auto flush = [&]() -> absl::Status {
      if (block.ids.empty()) return absl::OkStatus();
      if (run_.cancelled()) return absl::CancelledError("cancelled while it ranked a gallery");
      see(block);
      block = Block();
      return absl::OkStatus();
    };
    LC_RETURN_IF_ERROR(
        collection_->ForEachEmbedding(generation_, [&](uint64_t id, std::span<const float> z, float) -> absl::Status {
          block.ids.push_back(id);
          block.rows.insert(block.rows.end(), z.begin(), z.end());
          block.factors.push_back(FactorsOf(space_, z));
          return block.ids.size() == kBlockRows ? flush() : absl::OkStatus();
        }));
    return flush();
  }

  // A block's scores by a way: one row of them for each probe that has a query.
  struct Scored {
    std::vector<size_t> probes;
    std::vector<float> scores;
    std::vector<uint8_t> lost;      // 1: the adapter makes no vector of the row; empty: it makes one of all
    std::vector<double> distances;  // as the scores, where a fusion needs them

    const float* Row(size_t q, size_t rows) const { return scores.data() + q * rows; }
  };
  // The rows as a way sees them.
  struct Seen {
    const float* rows;
    size_t stride;
    const RowFactors* factors;
  };
  Seen SeenBy(const RankingWay& way, const Block& block, Scored* scored) {
    scored->lost.clear();
    if (way.carry == nullptr) return {block.rows.data(), static_cast<size_t>(space_.dimension), block.factors.data()};
    const auto dimension = static_cast<size_t>(way.carry->output_dimension());
    carried_.resize(block.ids.size() * dimension);
    way.carry->Apply(block.rows, carried_);
    carried_factors_.resize(block.ids.size());
    scored->lost.assign(block.ids.size(), 0);
    for (size_t i = 0; i < block.ids.size(); ++i) {
      const std::span<float> row(carried_.data() + i * dimension, dimension);
      scored->lost[i] = !CheckVector(way.carry->target(), row, "vector").ok();
      // A harmless vector stands in; its score is not used.
      if (scored->lost[i]) std::fill(row.begin(), row.end(), 1.0f);
      carried_factors_[i] = FactorsOf(way.carry->target(), row);
    }
    return {carried_.data(), dimension, carried_factors_.data()};
  }

  // Scores the whole block for every probe that has a query. Both walks score alike, so that an item as far away as a
  // relevant one has the very same score. Lost items rank last, but before relevant items that are lost.
  void ScoreBlock(size_t w, const Block& block) {
    Scored& scored = scored_[w];
    scored.probes.clear();
    queries_.clear();
    for (size_t p = begin_; p < end_; ++p) {
      if (!ways_[w].queries[p] || targets_[p].relevant->empty()) continue;
      queries_.push_back(&*ways_[w].queries[p]);
      scored.probes.push_back(p);
    }
    if (queries_.empty()) return;
    const size_t rows = block.ids.size();
    const Seen seen = SeenBy(ways_[w], block, &scored);
    scored.scores.resize(queries_.size() * rows);
    ScoreRowsBatch(QueryBatch(queries_), seen.rows, seen.stride, seen.factors, rows, scored.scores.data(), rows);
    const auto needs = [w](const FusedRanking& f) { return f.older == w || f.newer == w; };
    if (std::any_of(fused_.begin(), fused_.end(), needs)) {
      scored.distances.resize(scored.scores.size());
      for (size_t i = 0; i < scored.scores.size(); ++i) {
        scored.distances[i] = queries_[i / rows]->DistanceFromScore(scored.scores[i]);
      }
    }
    for (size_t i = 0; i < scored.scores.size() && !scored.lost.empty(); ++i) {
      if (scored.lost[i % rows] != 0) scored.scores[i] = -std::numeric_limits<float>::infinity();
    }
  }

  // The same of a fusion, from the distances of its ways.
  void FuseBlock(const FusedRanking& fused, size_t rows) {
    const Scored &older = scored_[fused.older], &newer = scored_[fused.newer];
    fused_scores_.probes.clear();
    fused_scores_.scores.clear();
    for (size_t i = 0, j = 0; i < older.probes.size() && j < newer.probes.size();) {
      if (older.probes[i] != newer.probes[j]) {
        older.probes[i] < newer.probes[j] ? ++i : ++j;
        continue;
      }
      const DistanceFusion& fusion = fused.by_probe[older.probes[i]];
      const std::vector<double>& older_distances = fused.likenesses == nullptr ? older.distances : likenesses_;
      fused_scores_.probes.push_back(older.probes[i]);
      for (size_t r = 0; r < rows; ++r) {
        const bool lost = !newer.lost.empty() && newer.lost[r] != 0;
        const double fused_distance = fusion.Of(older_distances[i * rows + r], newer.distances[j * rows + r]);
        LC_DCHECK(!std::isnan(fused_distance));
        fused_scores_.scores.push_back(lost ? -std::numeric_limits<float>::infinity()
                                            : -static_cast<float>(fused_distance));
      }
      ++i;
      ++j;
    }
  }

  // Makes the distances of likenesses from those of the older way.
  void MeasureLikenesses(const FusedRanking& fused, const Block& block) {
    const LikenessKernel& kernel = *fused.likenesses->kernel;
    const size_t rows = block.ids.size(), size = kernel.features();
    features_.resize(rows * size);
    for (size_t i = 0; i < rows; ++i) {
      kernel.FeaturesOf(std::span(block.rows).subspan(i * kernel.dimension(), kernel.dimension()),
                        std::span(features_).subspan(i * size, size));
    }
    const Scored& older = scored_[fused.older];
    likenesses_.resize(older.distances.size());
    for (size_t q = 0; q < older.probes.size(); ++q) {
      const QueryLikeness& likeness = *fused.likenesses->by_probe[older.probes[q]];
      for (size_t r = 0; r < rows; ++r) {
        const auto features = std::span<const float>(features_).subspan(r * size, size);
        likenesses_[q * rows + r] = likeness.Distance(older.distances[q * rows + r], features);
      }
    }
  }

  // Calls `see` with the scores of each way, then of each fusion.
  void ForEachScored(const Block& block, const std::function<void(size_t w, const Scored&)>& see) {
    for (size_t w = 0; w < ways_.size(); ++w) {
      ScoreBlock(w, block);
      see(w, scored_[w]);
    }
    const auto likened =
        std::find_if(fused_.begin(), fused_.end(), [](const FusedRanking& f) { return f.likenesses != nullptr; });
    if (likened != fused_.end()) MeasureLikenesses(*likened, block);
    for (size_t f = 0; f < fused_.size(); ++f) {
      FuseBlock(fused_[f], block.ids.size());
      see(ways_.size() + f, fused_scores_);
    }
  }

  void ScoreRelevant(const Block& block) {
    std::vector<size_t> wanted;  // rows
    for (size_t i = 0; i < block.ids.size(); ++i) {
      if (wanted_.contains(block.ids[i])) wanted.push_back(i);
    }
    if (wanted.empty()) return;
    ForEachScored(block, [&](size_t w, const Scored& scored) {
      for (size_t q = 0; q < scored.probes.size(); ++q) {
        const ProbeTarget& target = targets_[scored.probes[q]];
        const float* const scores = scored.Row(q, block.ids.size());
        for (const size_t i : wanted) {
          if (block.ids[i] == target.own || !target.IsRelevant(block.ids[i])) continue;
          standings_[w][scored.probes[q] - begin_].relevant.push_back(scores[i]);
        }
      }
    });
  }

  void ScoreOthers(const Block& block) {
    ForEachScored(block, [&](size_t w, const Scored& scored) {
      for (size_t q = 0; q < scored.probes.size(); ++q) {
        Standing& standing = standings_[w][scored.probes[q] - begin_];
        const ProbeTarget& target = targets_[scored.probes[q]];
        const float* const scores = scored.Row(q, block.ids.size());
        if (nearest_ != nullptr) SeeNearest(block, target, scores, &standing);
        if (distances_ != nullptr && w < distances_->size()) SeeTop(block, target, scores, &standing);
        if (!standing.relevant.empty()) CountAhead(block, target, scores, &standing);
      }
    });
  }

  void SeeNearest(const Block& block, const ProbeTarget& target, const float* scores, Standing* standing) const {
    for (size_t i = 0; i < block.ids.size(); ++i) {
      if (scores[i] < standing->best || block.ids[i] == target.own) continue;
      if (nearest_->left_out != nullptr && nearest_->left_out->Contains(block.ids[i])) continue;
      const bool relevant = target.IsRelevant(block.ids[i]);
      standing->best_is_relevant = relevant && (scores[i] > standing->best || standing->best_is_relevant);
      standing->best = scores[i];
    }
  }

  static void SeeTop(const Block& block, const ProbeTarget& target, const float* scores, Standing* standing) {
    std::vector<std::pair<float, bool>>& top = standing->top;
    for (size_t i = 0; i < block.ids.size(); ++i) {
      const bool full = top.size() == RankedDistances::kNearest;
      if (!std::isfinite(scores[i]) || (full && scores[i] <= top.front().first) || block.ids[i] == target.own) continue;
      if (full) {
        std::pop_heap(top.begin(), top.end(), std::greater<>());
        top.pop_back();
      }
      top.emplace_back(scores[i], target.IsRelevant(block.ids[i]));
      std::push_heap(top.begin(), top.end(), std::greater<>());
    }
  }

  // The distance that a finite score of a ranking stands for.
  double DistanceOf(size_t w, size_t probe, float score) const {
    return w < ways_.size() ? ways_[w].queries[probe]->DistanceFromScore(score) : -static_cast<double>(score);
  }

  void CountDistances() {
    for (size_t w = 0; w < distances_->size(); ++w) {
      RankedDistances& counts = (*distances_)[w];
      for (size_t p = begin_; p < end_; ++p) {
        const Standing& standing = standings_[w][p - begin_];
        for (const auto& [score, relevant] : standing.top) counts.nearest.Add(DistanceOf(w, p, score), relevant);
        for (const float score : standing.relevant) {
          if (std::isfinite(score)) counts.relevant.Add(DistanceOf(w, p, score), true);
        }
      }
    }
  }

  void TellNearest() {
    for (size_t w = 0; w < standings_.size(); ++w) {
      for (size_t p = begin_; p < end_; ++p) {
        const Standing& standing = standings_[w][p - begin_];
        if (std::isinf(standing.best)) continue;
        nearest_->rows[w][p] = {DistanceOf(w, p, standing.best), standing.best_is_relevant};
      }
    }
  }

  static void CountAhead(const Block& block, const ProbeTarget& target, const float* scores, Standing* standing) {
    const float least = standing->relevant.back();
    for (size_t i = 0; i < block.ids.size(); ++i) {
      const float score = scores[i];
      if (score < least || block.ids[i] == target.own || target.IsRelevant(block.ids[i])) continue;
      const auto outranked = std::upper_bound(standing->relevant.begin(), standing->relevant.end(), score,
                                              [](float score, float relevant) { return score >= relevant; });
      ++standing->ahead[static_cast<size_t>(outranked - standing->relevant.begin())];
    }
  }

  static QueryRanking Summarise(const Standing& standing) {
    std::vector<size_t> ranks(standing.relevant.size());
    size_t ahead = 0;
    for (size_t j = 0; j < ranks.size(); ++j) {
      ahead += standing.ahead[j];
      ranks[j] = ahead + j + 1;
    }
    return SummariseRanks(ranks);
  }

  Collection* const collection_;
  const uint32_t generation_;
  const Space& space_;
  const std::span<const RankingWay> ways_;
  const std::span<const FusedRanking> fused_;
  const std::span<const ProbeTarget> targets_;
  const size_t begin_, end_;  // range of probes
  const RankingRun& run_;
  NearestRows* const nearest_;                     // nullptr: not wanted
  std::vector<RankedDistances>* const distances_;  // the same
  std::vector<Scored> scored_;                     // by way
  Scored fused_scores_;                            // scores of the last fusion
  std::vector<std::vector<Standing>> standings_;   // by way or, behind the ways, fusion; and by probe
  absl::flat_hash_set<uint64_t> wanted_;           // items relevant to some probe
  std::vector<const BoundQuery*> queries_;         // queries of the way that is being scored
  std::vector<float> carried_;
  std::vector<RowFactors> carried_factors_;
  std::vector<float> features_;     // features of the block's rows
  std::vector<double> likenesses_;  // distances of likenesses, as the older way's
};

}  // namespace

absl::StatusOr<std::vector<std::vector<QueryRanking>>> RankGallery(
    Collection* collection, uint32_t generation, const Space& space, std::span<const RankingWay> ways,
    std::span<const ProbeTarget> targets, const RankingRun& run, uint64_t* items, std::span<const FusedRanking> fused,
    NearestRows* nearest, std::vector<RankedDistances>* distances) {
  const size_t rankings = ways.size() + fused.size();
  std::vector<std::vector<QueryRanking>> all(rankings, std::vector<QueryRanking>(targets.size()));
  if (nearest != nullptr) nearest->rows.assign(rankings, std::vector<NearestRow>(targets.size()));
  LC_DCHECK(distances == nullptr || distances->size() <= rankings);
  for (size_t begin = 0, end = 0; begin < targets.size(); begin = end) {
    size_t relevant = 0;
    while (end < targets.size() && end - begin < kBlockProbes) {
      relevant += targets[end].relevant->size() * rankings;
      if (end > begin && relevant > kBlockRelevant) break;
      ++end;
    }
    run.report(StrCat("ranking items of generation ", generation, " for probes ", begin, " .. ", end - 1));
    BlockRanker ranker(collection, generation, space, ways, fused, targets, begin, end, run, nearest, distances);
    LC_RETURN_IF_ERROR(ranker.Rank(&all, items));
  }
  return all;
}

ProbeMeasures MeasuresOf(std::span<const QueryRanking> rankings) {
  ProbeMeasures measures;
  for (const QueryRanking& r : rankings) {
    const bool any = r.first > 0;
    measures.cmc1.push_back(any ? std::optional<double>(r.first <= 1) : std::nullopt);
    measures.cmc5.push_back(any ? std::optional<double>(r.first <= 5) : std::nullopt);
    measures.ap.push_back(any ? std::optional<double>(r.ap) : std::nullopt);
    measures.mrr.push_back(any ? std::optional<double>(1 / static_cast<double>(r.first)) : std::nullopt);
    measures.ndcg10.push_back(any ? std::optional<double>(r.ndcg10) : std::nullopt);
    measures.recall10.push_back(any ? std::optional<double>(r.recall10) : std::nullopt);
  }
  return measures;
}

ProbeValues ProbeMeasures::By(const GateMeasure& measure) const {
  LC_DCHECK(measure.named());
  ProbeValues values(cmc1.size());
  for (size_t p = 0; p < values.size(); ++p) {
    if (!cmc1[p]) continue;
    double sum = 0;
    for (const auto& [of, weight] : measure.weights) sum += weight * *(*all()[static_cast<size_t>(of)])[p];
    values[p] = sum;
  }
  return values;
}

}  // namespace lightcone::server
