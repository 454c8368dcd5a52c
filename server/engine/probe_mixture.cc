#include "server/engine/probe_mixture.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kItemsMax = 10'000;
constexpr size_t kReadItems = 1'024;

// The finaliser of SplitMix64: an order of the ids that nothing else goes by.
uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

absl::StatusOr<CommonItems> CommonItems::Read(Collection* collection,
                                              std::span<const GenerationRecord* const> generations,
                                              const RankingRun& run) {
  absl::flat_hash_map<uint64_t, size_t> seen;  // in how many generations
  for (size_t g = 0; g < generations.size(); ++g) {
    LC_RETURN_IF_ERROR(collection->ForEachEmbedding(
        generations[g]->generation, [&](uint64_t id, std::span<const float>, float) -> absl::Status {
          if (run.cancelled()) return absl::CancelledError("cancelled while it looked for common items");
          if (g == 0) {
            seen[id] = 1;
          } else if (const auto found = seen.find(id); found != seen.end()) {
            ++found->second;
          }
          return absl::OkStatus();
        }));
  }
  CommonItems common;
  for (const auto& [id, count] : seen) {
    if (count == generations.size()) common.ids_.push_back(id);
  }
  std::sort(common.ids_.begin(), common.ids_.end(), [](uint64_t a, uint64_t b) { return Mixed(a) < Mixed(b); });
  if (common.ids_.size() > kItemsMax) common.ids_.resize(kItemsMax);
  std::vector<uint8_t> gone(common.ids_.size(), 0);  // deleted meanwhile
  for (const GenerationRecord* g : generations) {
    Rows& rows = common.rows_[g->generation];
    rows.dimension = static_cast<size_t>(g->space.dimension);
    rows.values.resize(common.ids_.size() * rows.dimension);
    for (size_t begin = 0; begin < common.ids_.size(); begin += kReadItems) {
      const size_t end = std::min(common.ids_.size(), begin + kReadItems);
      std::vector<std::string> embedding_keys;
      for (size_t i = begin; i < end; ++i) {
        embedding_keys.push_back(keys::Embedding(collection->number(), g->generation, common.ids_[i]));
      }
      const auto read = collection->store()->MultiGet(Table::kEmbeddings, embedding_keys);
      for (size_t i = begin; i < end; ++i) {
        if (absl::IsNotFound(read[i - begin].status())) {
          gone[i] = 1;
          continue;
        }
        LC_RETURN_IF_ERROR(read[i - begin].status());
        float* const to = rows.values.data() + i * rows.dimension;
        LC_RETURN_IF_ERROR(DecodeEmbeddingInto(*read[i - begin], to, rows.dimension).status());
      }
    }
  }
  common.Leave(gone);
  return common;
}

void CommonItems::Leave(const std::vector<uint8_t>& gone) {
  size_t kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (gone[i]) continue;
    ids_[kept] = ids_[i];
    for (auto& [generation, rows] : rows_) {
      std::copy_n(rows.values.begin() + static_cast<ptrdiff_t>(i * rows.dimension), rows.dimension,
                  rows.values.begin() + static_cast<ptrdiff_t>(kept * rows.dimension));
    }
    ++kept;
  }
  ids_.resize(kept);
  for (auto& [generation, rows] : rows_) rows.values.resize(kept * rows.dimension);
}

std::vector<std::vector<float>> CommonItems::SeenBy(const Leg& leg) const {
  const Rows& rows = rows_.at(leg.generation);
  std::vector<std::vector<float>> seen(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::span<const float> row(rows.values.data() + i * rows.dimension, rows.dimension);
    if (leg.way->carry == nullptr) {
      seen[i].assign(row.begin(), row.end());
      continue;
    }
    seen[i].resize(static_cast<size_t>(leg.way->carry->output_dimension()));
    leg.way->carry->ApplyOne(row, seen[i]);
    if (!CheckVector(leg.way->carry->target(), seen[i], "vector").ok()) seen[i].clear();
  }
  return seen;
}

absl::StatusOr<std::vector<std::vector<QueryRanking>>> CommonItems::Rank(const Leg& older, const Leg& newer,
                                                                         std::span<const double> shares,
                                                                         std::span<const ProbeTarget> targets,
                                                                         const RankingRun& run) const {
  const std::vector<std::vector<float>> old_rows = SeenBy(older), new_rows = SeenBy(newer);
  std::vector<std::vector<QueryRanking>> all(shares.size(), std::vector<QueryRanking>(targets.size()));
  std::vector<double> old_distances(ids_.size()), new_distances(ids_.size()), mixed(ids_.size());
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
    std::optional<size_t> own;
    for (size_t i = 0; i < ids_.size(); ++i) {
      labels[i] = targets[p].IsRelevant(ids_[i]) ? 1 : 0;
      if (ids_[i] == targets[p].own) own = i;
    }
    measure(*older.way->queries[p], old_rows, &old_distances);
    measure(*newer.way->queries[p], new_rows, &new_distances);
    for (size_t s = 0; s < shares.size(); ++s) {
      const auto fresh = static_cast<size_t>(shares[s] * static_cast<double>(ids_.size()));
      std::copy(new_distances.begin(), new_distances.begin() + static_cast<ptrdiff_t>(fresh), mixed.begin());
      std::copy(old_distances.begin() + static_cast<ptrdiff_t>(fresh), old_distances.end(),
                mixed.begin() + static_cast<ptrdiff_t>(fresh));
      all[s][p] = SummariseRanks(RelevantRanks(1, mixed, labels, own));
    }
  }
  return all;
}

}  // namespace lightcone::server
