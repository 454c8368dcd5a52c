#include "server/engine/search/fused_leg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone::server {
namespace {

constexpr int64_t kCandidatesMin = 200;  // as many as an item adapter ranks (index/api/search.h)
constexpr int64_t kCandidatesPart = 2;   // as so many times the hits wanted
constexpr int64_t kExactGrowth = 8;      // an exact search that has not found its hits for sure looks so much farther
constexpr size_t kScaleRowsMin = 32;     // rows of a sample that say what a query's distances are like

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

void AddWork(const SearchResult& from, SearchResult* to) {
  to->rows_scored += from.rows_scored;
  to->rows_refined += from.rows_refined;
  to->rows_reranked += from.rows_reranked;
  to->rows_adapted += from.rows_adapted;
  to->segments.insert(to->segments.end(), from.segments.begin(), from.segments.end());
}

bool SawAll(const SearchRequest& request, const SearchResult& result) {
  return static_cast<int64_t>(result.hits.size()) < request.k;
}

}  // namespace

int64_t FusedCandidates(int64_t hits_wanted) { return std::max(kCandidatesPart * hits_wanted, kCandidatesMin); }

struct FusedLeg::Row {
  SearchHit hit;
  double older = kUnknown, newer = kUnknown;
};

absl::Status FusedLeg::Complete(const BoundQuery& older_query, const SearchRequest& newer,
                                std::vector<Row>* rows) const {
  std::vector<size_t> places;
  std::vector<std::string> embedding_keys;
  for (size_t i = 0; i < rows->size(); ++i) {
    const Row& row = (*rows)[i];
    if (!std::isnan(row.older) && !std::isnan(row.newer)) continue;
    places.push_back(i);
    embedding_keys.push_back(keys::Embedding(collection_, newer.generation, row.hit.internal_id));
  }
  const auto embeddings = store_->MultiGet(Table::kEmbeddings, embedding_keys);
  const Adapter* const adapter = newer.adapter;
  std::vector<float> plain, carried;
  std::vector<size_t> to_carry;  // places of the rows in `plain`
  for (size_t i = 0; i < places.size(); ++i) {
    // The item was replaced or deleted since the view was pinned: nothing would be told of it.
    if (absl::IsNotFound(embeddings[i].status())) continue;
    LC_RETURN_IF_ERROR(embeddings[i].status());
    LC_ASSIGN_OR_RETURN(const EmbeddingRecord record, DecodeEmbedding(*embeddings[i]));
    Row& row = (*rows)[places[i]];
    if (std::isnan(row.older)) row.older = older_query.Distance(record.z);
    if (!std::isnan(row.newer)) continue;
    if (adapter == nullptr) {
      row.newer = newer.query->Distance(record.z);
    } else {
      to_carry.push_back(places[i]);
      plain.insert(plain.end(), record.z.begin(), record.z.end());
    }
  }
  if (to_carry.empty()) return absl::OkStatus();
  const auto dimension = static_cast<size_t>(adapter->output_dimension());
  carried.resize(to_carry.size() * dimension);
  adapter->Apply(plain, carried);
  for (size_t i = 0; i < to_carry.size(); ++i) {
    const std::span<const float> row(carried.data() + i * dimension, dimension);
    if (!CheckVector(adapter->target(), row, "vector").ok()) continue;
    (*rows)[to_carry[i]].newer = newer.adapted_query->Distance(row);
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> FusedLeg::Finish(const DistanceFusion& fusion, const BoundQuery& older_query,
                                              SearchRequest older, SearchRequest newer, SearchResult by_older,
                                              SearchResult by_newer, int64_t hits_wanted) const {
  LC_DCHECK(older.generation == newer.generation && older.k == newer.k);
  const bool own = older.query == &older_query;
  LC_DCHECK(own || !older.exact);
  SearchResult result;
  for (;;) {
    LC_RETURN_IF_ERROR(CheckAlive(*context_, "search"));
    AddWork(by_older, &result);
    AddWork(by_newer, &result);
    std::vector<Row> rows;
    absl::flat_hash_map<uint64_t, size_t> places;
    for (const SearchHit& hit : by_older.hits) {
      places[hit.internal_id] = rows.size();
      rows.push_back({hit, own ? hit.distance : kUnknown, kUnknown});
    }
    for (const SearchHit& hit : by_newer.hits) {
      const auto [at, fresh] = places.try_emplace(hit.internal_id, rows.size());
      if (fresh) rows.push_back({hit, kUnknown, kUnknown});
      rows[at->second].newer = hit.distance;
    }
    LC_RETURN_IF_ERROR(Complete(older_query, newer, &rows));
    result.hits.clear();
    for (Row& row : rows) {
      if (std::isnan(row.older) || std::isnan(row.newer)) continue;
      row.hit.distance = fusion.Of(row.older, row.newer);
      result.hits.push_back(row.hit);
    }
    std::sort(result.hits.begin(), result.hits.end(), [](const SearchHit& a, const SearchHit& b) {
      return std::tuple(a.distance, a.internal_id) < std::tuple(b.distance, b.internal_id);
    });
    const auto wanted = static_cast<size_t>(hits_wanted);
    if (result.hits.size() > wanted) result.hits.resize(wanted);
    if (!older.exact || SawAll(older, by_older) || SawAll(newer, by_newer)) return result;
    // A row that neither search has found is no nearer by either than its last hit, and so not by both (threshold
    // algorithm: Fagin, Lotem & Naor 2003).
    const double unseen = fusion.Of(by_older.hits.back().distance, by_newer.hits.back().distance);
    if (result.hits.size() == wanted && result.hits.back().distance < unseen) return result;
    const int64_t all = view_->VisibleRows(older.generation, older.view_generation) + 1;
    older.k = newer.k = std::max(older.k + 1, std::min(older.k * kExactGrowth, all));
    const std::array<SearchRequest, 2> both = {older, newer};
    auto found = view_->SearchTogether(both);
    LC_ASSIGN_OR_RETURN(by_older, std::move(found[0]));
    LC_ASSIGN_OR_RETURN(by_newer, std::move(found[1]));
  }
}

void Rescale(std::span<const double> older_distances, std::span<const double> own_distances, SearchResult* result) {
  if (std::min(older_distances.size(), own_distances.size()) < kScaleRowsMin) return;
  const DistanceScale from = DistanceScale::Of(older_distances), to = DistanceScale::Of(own_distances);
  for (SearchHit& hit : result->hits) {
    hit.distance = to.mean + to.deviation * (hit.distance - from.mean) / from.deviation;
  }
}

}  // namespace lightcone::server
