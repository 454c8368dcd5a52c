#include "server/engine/validation/probe_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "geometry/kernels.h"

namespace lightcone::server {
namespace {

constexpr size_t kBlockRows = 512;
constexpr size_t kBlockProbes = 1'024;
constexpr size_t kBlockRelevant = 2'000'000;  // relevant items, over all ways, that one pair of walks remembers

struct Block {
  std::vector<uint64_t> ids;
  std::vector<float> rows;
  std::vector<RowFactors> factors;
};

// One probe's state in one way.
struct Standing {
  std::vector<float> relevant;  // scores, sorted from the highest after the first walk
  std::vector<uint32_t> ahead;  // [j]: count of others that outrank relevant item j but not j - 1
};

class BlockRanker {
 public:
  BlockRanker(Collection* collection, uint32_t generation, const Space& space, std::span<const RankingWay> ways,
              std::span<const ProbeTarget> targets, size_t begin, size_t end, const RankingRun& run)
      : collection_(collection),
        generation_(generation),
        space_(space),
        ways_(ways),
        targets_(targets),
        begin_(begin),
        end_(end),
        run_(run),
        standings_(ways.size(), std::vector<Standing>(end - begin)) {}

  absl::Status Rank(std::vector<std::vector<QueryRanking>>* out, uint64_t* items) {
    for (size_t p = begin_; p < end_; ++p) {
      for (const uint64_t id : *targets_[p].relevant) {
        if (id != targets_[p].own) wanted_.insert(id);
      }
    }
    *items = 0;
    LC_RETURN_IF_ERROR(Walk([&](const Block& block) {
      *items += block.ids.size();
      ScoreRelevant(block);
    }));
    for (auto& way : standings_) {
      for (Standing& standing : way) {
        std::sort(standing.relevant.begin(), standing.relevant.end(), std::greater<>());
        standing.ahead.assign(standing.relevant.size(), 0);
      }
    }
    LC_RETURN_IF_ERROR(Walk([&](const Block& block) { ScoreOthers(block); }));
    for (size_t w = 0; w < ways_.size(); ++w) {
      for (size_t p = begin_; p < end_; ++p) (*out)[w][p] = Summarise(standings_[w][p - begin_]);
    }
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

  // The rows as a way sees them.
  struct Seen {
    const float* rows;
    size_t stride;
    const RowFactors* factors;
  };
  Seen SeenBy(const RankingWay& way, const Block& block) {
    if (way.carry == nullptr) return {block.rows.data(), static_cast<size_t>(space_.dimension), block.factors.data()};
    const auto dimension = static_cast<size_t>(way.carry->output_dimension());
    carried_.resize(block.ids.size() * dimension);
    way.carry->Apply(block.rows, carried_);
    carried_factors_.resize(block.ids.size());
    lost_.assign(block.ids.size(), 0);
    for (size_t i = 0; i < block.ids.size(); ++i) {
      const std::span<float> row(carried_.data() + i * dimension, dimension);
      lost_[i] = !CheckVector(way.carry->target(), row, "vector").ok();
      // A harmless vector stands in; its score is not used.
      if (lost_[i]) std::fill(row.begin(), row.end(), 1.0f);
      carried_factors_[i] = FactorsOf(way.carry->target(), row);
    }
    return {carried_.data(), dimension, carried_factors_.data()};
  }
  bool Lost(const RankingWay& way, size_t i) const { return way.carry != nullptr && lost_[i] != 0; }

  // Scores the whole block for every probe that has a query. Both walks score alike, so that an item as far away as a
  // relevant one has the very same score.
  void ScoreBlock(size_t w, const Block& block) {
    queries_.clear();
    probes_.clear();
    for (size_t p = begin_; p < end_; ++p) {
      if (!ways_[w].queries[p] || targets_[p].relevant->empty()) continue;
      queries_.push_back(&*ways_[w].queries[p]);
      probes_.push_back(p);
    }
    if (queries_.empty()) return;
    const Seen seen = SeenBy(ways_[w], block);
    scores_.resize(queries_.size() * block.ids.size());
    ScoreRowsBatch(QueryBatch(queries_), seen.rows, seen.stride, seen.factors, block.ids.size(), scores_.data(),
                   block.ids.size());
  }

  void ScoreRelevant(const Block& block) {
    std::vector<size_t> wanted;  // rows
    for (size_t i = 0; i < block.ids.size(); ++i) {
      if (wanted_.contains(block.ids[i])) wanted.push_back(i);
    }
    if (wanted.empty()) return;
    for (size_t w = 0; w < ways_.size(); ++w) {
      ScoreBlock(w, block);
      for (size_t q = 0; q < probes_.size(); ++q) {
        const ProbeTarget& target = targets_[probes_[q]];
        for (const size_t i : wanted) {
          if (block.ids[i] == target.own || !target.IsRelevant(block.ids[i])) continue;
          const float score = scores_[q * block.ids.size() + i];
          standings_[w][probes_[q] - begin_].relevant.push_back(
              Lost(ways_[w], i) ? -std::numeric_limits<float>::infinity() : score);
        }
      }
    }
  }

  void ScoreOthers(const Block& block) {
    for (size_t w = 0; w < ways_.size(); ++w) {
      ScoreBlock(w, block);
      for (size_t q = 0; q < probes_.size(); ++q) {
        Standing& standing = standings_[w][probes_[q] - begin_];
        if (standing.relevant.empty()) continue;
        CountAhead(ways_[w], block, targets_[probes_[q]], scores_.data() + q * block.ids.size(), &standing);
      }
    }
  }

  void CountAhead(const RankingWay& way, const Block& block, const ProbeTarget& target, const float* scores,
                  Standing* standing) const {
    const float least = standing->relevant.back();
    for (size_t i = 0; i < block.ids.size(); ++i) {
      // Lost items rank last, but before relevant items that are lost.
      const float score = Lost(way, i) ? -std::numeric_limits<float>::infinity() : scores[i];
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
  const std::span<const ProbeTarget> targets_;
  const size_t begin_, end_;  // range of probes
  const RankingRun& run_;
  std::vector<std::vector<Standing>> standings_;  // by way and probe
  absl::flat_hash_set<uint64_t> wanted_;          // items relevant to some probe
  std::vector<float> carried_, scores_;           // results of ScoreBlock: one row of scores a query
  std::vector<const BoundQuery*> queries_;
  std::vector<size_t> probes_;  // the probe of each query
  std::vector<RowFactors> carried_factors_;
  std::vector<uint8_t> lost_;  // 1: the adapter makes no vector of the row
};

}  // namespace

absl::StatusOr<std::vector<std::vector<QueryRanking>>> RankGallery(Collection* collection, uint32_t generation,
                                                                   const Space& space, std::span<const RankingWay> ways,
                                                                   std::span<const ProbeTarget> targets,
                                                                   const RankingRun& run, uint64_t* items) {
  std::vector<std::vector<QueryRanking>> all(ways.size(), std::vector<QueryRanking>(targets.size()));
  for (size_t begin = 0, end = 0; begin < targets.size(); begin = end) {
    size_t relevant = 0;
    while (end < targets.size() && end - begin < kBlockProbes) {
      relevant += targets[end].relevant->size() * ways.size();
      if (end > begin && relevant > kBlockRelevant) break;
      ++end;
    }
    run.report(StrCat("ranking items of generation ", generation, " for probes ", begin, " .. ", end - 1));
    BlockRanker ranker(collection, generation, space, ways, targets, begin, end, run);
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
  }
  return measures;
}

}  // namespace lightcone::server
