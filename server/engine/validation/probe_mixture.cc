#include "server/engine/validation/probe_mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/dcheck.h"
#include "base/mix.h"
#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr double kDipMax = 0.01;  // mAP below the lower end
constexpr size_t kItemsMax = 10'000;
constexpr size_t kMixtureItems = 1'024;
constexpr size_t kCandidates = 160'000;  // most ids that one walk of the generation keeps

// The next items of a generation in the order by Mixed, behind `after`. At most kCandidates, because a gallery has more
// ids than a job may keep.
absl::StatusOr<std::vector<uint64_t>> NextIds(Collection* collection, uint32_t generation,
                                              std::optional<uint64_t> after, const RankingRun& run,
                                              const std::function<bool(uint64_t internal_id)>& wanted) {
  const auto sooner = [](uint64_t a, uint64_t b) { return Mixed(a) < Mixed(b); };
  std::vector<uint64_t> ids;  // max-heap
  LC_RETURN_IF_ERROR(
      collection->ForEachEmbedding(generation, [&](uint64_t id, std::span<const float>, float) -> absl::Status {
        if (run.cancelled()) return absl::CancelledError("cancelled while it looked for common items");
        if (after && Mixed(id) <= *after) return absl::OkStatus();
        if (wanted && !wanted(id)) return absl::OkStatus();
        if (ids.size() == kCandidates && !sooner(id, ids.front())) return absl::OkStatus();
        ids.push_back(id);
        std::push_heap(ids.begin(), ids.end(), sooner);
        if (ids.size() <= kCandidates) return absl::OkStatus();
        std::pop_heap(ids.begin(), ids.end(), sooner);
        ids.pop_back();
        return absl::OkStatus();
      }));
  std::sort_heap(ids.begin(), ids.end(), sooner);
  return ids;
}

}  // namespace

std::vector<MixturePoint> PointsOf(std::span<const std::vector<QueryRanking>> ranks, std::span<const double> shares) {
  std::vector<MixturePoint> points;
  for (size_t s = 0; s < shares.size(); ++s) {
    MixturePoint point{shares[s], 0, 0};
    int64_t probes = 0;
    for (const QueryRanking& r : ranks[s]) {
      if (r.first == 0) continue;
      point.cmc1 += r.first == 1;
      point.map += r.ap;
      ++probes;
    }
    if (probes > 0) {
      point.cmc1 /= static_cast<double>(probes);
      point.map /= static_cast<double>(probes);
    }
    points.push_back(point);
  }
  return points;
}

bool Dips(std::span<const MixturePoint> mixture, double old_map) {
  if (mixture.empty()) return false;
  const double least = std::min(mixture.front().map, std::max(mixture.back().map, old_map)) - kDipMax;
  return std::any_of(mixture.begin(), mixture.end(), [least](const MixturePoint& point) { return point.map < least; });
}

absl::StatusOr<CommonItems> CommonItems::Read(Collection* collection,
                                              std::span<const GenerationRecord* const> generations,
                                              const RankingRun& run,
                                              const std::function<bool(uint64_t internal_id)>& wanted) {
  CommonItems common;
  for (const GenerationRecord* g : generations) {
    common.rows_[g->generation].dimension = static_cast<size_t>(g->space.dimension);
  }
  std::optional<uint64_t> after;
  while (common.ids_.size() < kItemsMax) {
    LC_ASSIGN_OR_RETURN(const std::vector<uint64_t> next,
                        NextIds(collection, generations.back()->generation, after, run, wanted));
    for (size_t begin = 0; begin < next.size() && common.ids_.size() < kItemsMax;) {
      const size_t n = std::min({kMixtureItems, next.size() - begin, kItemsMax - common.ids_.size()});
      LC_RETURN_IF_ERROR(common.Take(collection, generations, std::span(next).subspan(begin, n)));
      begin += n;
    }
    if (next.size() < kCandidates) break;
    after = Mixed(next.back());
  }
  return common;
}

absl::StatusOr<CommonItems> CommonItems::ReadHeldOut(Collection* collection,
                                                     std::span<const GenerationRecord* const> generations,
                                                     std::span<const ServedAdapter* const> adapters,
                                                     std::span<const ProbeTarget> targets, Least least,
                                                     const RankingRun& run, uint64_t* fitted_pairs) {
  *fitted_pairs = 0;
  for (const ServedAdapter* adapter : adapters) {
    *fitted_pairs = std::max(*fitted_pairs, static_cast<uint64_t>(adapter->fit.pairs));
  }
  if (KnowHeldOut(adapters)) {
    const auto held_out = [&](uint64_t id) { return AllHeldOut(adapters, id); };
    LC_ASSIGN_OR_RETURN(CommonItems items, Read(collection, generations, run, held_out));
    LC_ASSIGN_OR_RETURN(const bool enough, items.FoundBy(targets, least.probes, run));
    if (items.size() >= least.items && enough) {
      *fitted_pairs = 0;
      items.held_out_ = true;
      return items;
    }
  }
  return Read(collection, generations, run);
}

absl::StatusOr<bool> CommonItems::FoundBy(std::span<const ProbeTarget> targets, size_t least,
                                          const RankingRun& run) const {
  const absl::flat_hash_set<uint64_t> ids(ids_.begin(), ids_.end());
  size_t anywhere = 0, here = 0;
  for (const ProbeTarget& target : targets) {
    if (run.cancelled()) return absl::CancelledError("cancelled while it looked for common items");
    const auto found = [&](uint64_t id) { return id != target.own && ids.contains(id); };
    const auto other = [&](uint64_t id) { return id != target.own; };
    anywhere += std::any_of(target.relevant->begin(), target.relevant->end(), other);
    here += std::any_of(target.relevant->begin(), target.relevant->end(), found);
    if (here >= least) return true;
  }
  return here > 0 && here == anywhere;
}

absl::Status CommonItems::Take(Collection* collection, std::span<const GenerationRecord* const> generations,
                               std::span<const uint64_t> ids) {
  std::vector<uint8_t> there(ids.size(), 1);
  std::vector<std::vector<std::string>> read(generations.size());
  for (size_t g = 0; g < generations.size(); ++g) {
    std::vector<std::string> embedding_keys;
    for (const uint64_t id : ids) {
      embedding_keys.push_back(keys::Embedding(collection->number(), generations[g]->generation, id));
    }
    for (absl::StatusOr<std::string>& one : collection->store()->MultiGet(Table::kEmbeddings, embedding_keys)) {
      if (!one.ok() && !absl::IsNotFound(one.status())) return one.status();
      there[read[g].size()] &= static_cast<uint8_t>(one.ok());
      read[g].push_back(one.ok() ? *std::move(one) : std::string());
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!there[i]) continue;
    ids_.push_back(ids[i]);
    for (size_t g = 0; g < generations.size(); ++g) {
      Rows& rows = rows_.at(generations[g]->generation);
      rows.values.resize(ids_.size() * rows.dimension);
      float* const to = rows.values.data() + (ids_.size() - 1) * rows.dimension;
      LC_RETURN_IF_ERROR(DecodeEmbeddingInto(read[g][i], to, rows.dimension).status());
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<float>> CommonItems::SeenBy(uint32_t generation, const RankingWay& way) const {
  const Rows& rows = rows_.at(generation);
  std::vector<std::vector<float>> seen(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::span<const float> row(rows.values.data() + i * rows.dimension, rows.dimension);
    if (way.carry == nullptr) {
      seen[i].assign(row.begin(), row.end());
      continue;
    }
    seen[i].resize(static_cast<size_t>(way.carry->output_dimension()));
    way.carry->ApplyOne(row, seen[i]);
    if (!CheckVector(way.carry->target(), seen[i], "vector").ok()) seen[i].clear();
  }
  return seen;
}

std::vector<float> CommonItems::FeaturesOf(uint32_t generation, const LikenessKernel& kernel) const {
  const Rows& rows = rows_.at(generation);
  LC_DCHECK(kernel.dimension() == rows.dimension);
  const size_t size = kernel.features();
  std::vector<float> features(ids_.size() * size);
  for (size_t i = 0; i < ids_.size(); ++i) {
    kernel.FeaturesOf(std::span(rows.values).subspan(i * rows.dimension, rows.dimension),
                      std::span(features).subspan(i * size, size));
  }
  return features;
}

absl::StatusOr<std::vector<std::vector<QueryRanking>>> CommonItems::Rank(const Leg& older, const Leg& newer,
                                                                         std::span<const double> shares,
                                                                         std::span<const ProbeTarget> targets,
                                                                         const RankingRun& run,
                                                                         const SeeDistances& see) const {
  LC_DCHECK(rows_.contains(older.generation) && rows_.contains(newer.generation));
  const auto old_rows = SeenBy(older.generation, *older.way), new_rows = SeenBy(newer.generation, *newer.way);
  std::vector<std::vector<float>> beside_rows;
  if (older.beside != nullptr) beside_rows = SeenBy(older.generation, *older.beside);
  const LikenessKernel* const kernel = older.likenesses == nullptr ? nullptr : older.likenesses->kernel;
  std::vector<float> features;
  if (kernel != nullptr) features = FeaturesOf(older.generation, *kernel);
  const auto features_of = [&](size_t i) {
    return std::span<const float>(features).subspan(i * kernel->features(), kernel->features());
  };
  std::vector<std::vector<QueryRanking>> all(shares.size(), std::vector<QueryRanking>(targets.size()));
  std::vector<double> beside(ids_.size()), old_distances(ids_.size()), new_distances(ids_.size()), mixed(ids_.size());
  std::vector<int64_t> labels(ids_.size());
  const auto measure = [](const BoundQuery& query, const std::vector<std::vector<float>>& rows,
                          std::vector<double>* distances) {
    for (size_t i = 0; i < rows.size(); ++i) {
      (*distances)[i] = rows[i].empty() ? std::numeric_limits<double>::infinity() : query.Distance(rows[i]);
    }
  };
  for (size_t p = 0; p < targets.size(); ++p) {
    if (run.cancelled()) return absl::CancelledError("cancelled while it mixed a gallery");
    if (!older.way->queries[p] || !newer.way->queries[p]) continue;
    if (older.beside != nullptr && !older.beside->queries[p]) continue;
    std::optional<size_t> own;
    for (size_t i = 0; i < ids_.size(); ++i) {
      labels[i] = targets[p].IsRelevant(ids_[i]) ? 1 : 0;
      if (ids_[i] == targets[p].own) own = i;
    }
    measure(*older.way->queries[p], old_rows, &old_distances);
    measure(*newer.way->queries[p], new_rows, &new_distances);
    if (older.beside != nullptr) {
      measure(*older.beside->queries[p], beside_rows, &beside);
      const QueryLikeness* const likeness =
          kernel != nullptr && older.likenesses->by_probe[p] ? &*older.likenesses->by_probe[p] : nullptr;
      for (size_t i = 0; i < ids_.size(); ++i) {
        if (likeness != nullptr) beside[i] = likeness->Distance(beside[i], features_of(i));
        // An item that the way makes no vector of stays infinitely far, whatever its fusion weighs.
        if (std::isfinite(old_distances[i])) old_distances[i] = older.fusions[p].Of(beside[i], old_distances[i]);
      }
    }
    if (see) see(p, {old_distances, new_distances, labels, own});
    if (!older.calibrations.empty()) {
      for (double& distance : old_distances) distance = older.calibrations[p].Of(distance);
    }
    for (size_t s = 0; s < shares.size(); ++s) {
      const size_t fresh = CountItemsAnew(shares[s], ids_.size());
      std::copy(new_distances.begin(), new_distances.begin() + static_cast<ptrdiff_t>(fresh), mixed.begin());
      std::copy(old_distances.begin() + static_cast<ptrdiff_t>(fresh), old_distances.end(),
                mixed.begin() + static_cast<ptrdiff_t>(fresh));
      all[s][p] = SummariseRanks(RelevantRanks(1, mixed, labels, own));
    }
  }
  return all;
}

}  // namespace lightcone::server
