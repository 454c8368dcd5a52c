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
constexpr int64_t kExactRowsMax = 1 << 22;  // 1 GiB
constexpr size_t kReadRows = 1'024;         // embeddings that are read at once

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

void RowFeatures::Use(const RowSamplePtr& sample) {
  if (sample_ == sample) return;
  sample_ = sample;
  places_.clear();
  features_.clear();
}

std::span<const float> RowFeatures::Of(uint64_t internal_id) const {
  const auto place = places_.find(internal_id);
  if (place == places_.end()) return {};
  return std::span(features_).subspan(place->second, kernel().features());
}

std::span<const float> RowFeatures::Take(uint64_t internal_id, std::span<const float> row) {
  if (const auto known = Of(internal_id); !known.empty()) return known;
  const size_t size = kernel().features();
  if ((features_.size() + size) * sizeof(float) > bytes_max_) {
    last_.resize(size);
    kernel().FeaturesOf(row, last_);
    return last_;
  }
  const size_t place = features_.size();
  features_.resize(place + size);
  places_[internal_id] = place;
  const auto added = std::span(features_).subspan(place);
  kernel().FeaturesOf(row, added);
  return added;
}

struct FusedLeg::Row {
  SearchHit hit;
  double plain = kUnknown;  // distance of the older query to the row
  double older = kUnknown;  // plain distance, or the likeness's
  double newer = kUnknown;
};

absl::Status FusedLeg::Complete(const OlderQuery& older_query, const SearchRequest& newer, std::span<Row> rows) const {
  const QueryLikeness* const likeness = older_query.likeness;
  std::vector<size_t> places;
  std::vector<std::string> embedding_keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    if (!std::isnan(row.plain)) {
      const auto features = likeness == nullptr ? std::span<const float>() : features_->Of(row.hit.internal_id);
      if (likeness == nullptr) row.older = row.plain;
      if (!features.empty()) row.older = likeness->Distance(row.plain, features);
    }
    if (!std::isnan(row.older) && !std::isnan(row.newer)) continue;
    places.push_back(i);
    embedding_keys.push_back(keys::Embedding(collection_, newer.generation, row.hit.internal_id));
  }
  const auto embeddings = store_->MultiGet(Table::kEmbeddings, embedding_keys);
  const Adapter* const adapter = newer.adapter;
  std::vector<float> read, carried;
  std::vector<size_t> to_carry;  // places of the rows in `read`
  for (size_t i = 0; i < places.size(); ++i) {
    // The item was replaced or deleted since the view was pinned: nothing would be told of it.
    if (absl::IsNotFound(embeddings[i].status())) continue;
    LC_RETURN_IF_ERROR(embeddings[i].status());
    LC_ASSIGN_OR_RETURN(const EmbeddingRecord record, DecodeEmbedding(*embeddings[i]));
    Row& row = rows[places[i]];
    if (std::isnan(row.plain)) row.plain = older_query.plain->Distance(record.z);
    row.older =
        likeness == nullptr ? row.plain : likeness->Distance(row.plain, features_->Take(row.hit.internal_id, record.z));
    if (!std::isnan(row.newer)) continue;
    if (adapter == nullptr) {
      row.newer = newer.query->Distance(record.z);
    } else {
      to_carry.push_back(places[i]);
      read.insert(read.end(), record.z.begin(), record.z.end());
    }
  }
  if (to_carry.empty()) return absl::OkStatus();
  const auto dimension = static_cast<size_t>(adapter->output_dimension());
  carried.resize(to_carry.size() * dimension);
  adapter->Apply(read, carried);
  for (size_t i = 0; i < to_carry.size(); ++i) {
    const std::span<const float> row(carried.data() + i * dimension, dimension);
    if (!CheckVector(adapter->target(), row, "vector").ok()) continue;
    rows[to_carry[i]].newer = newer.adapted_query->Distance(row);
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> FusedLeg::Finish(const DistanceFusion& fusion, const OlderQuery& older_query,
                                              SearchRequest older, SearchRequest newer, SearchResult by_older,
                                              SearchResult by_newer, int64_t hits_wanted) const {
  LC_DCHECK(older.generation == newer.generation && older.k == newer.k);
  const bool plain = older_query.likeness == nullptr;
  SearchResult result;
  std::optional<absl::MutexLock> one;  // lock that is held once all rows are asked for
  for (;;) {
    LC_RETURN_IF_ERROR(CheckAlive(*context_, "search"));
    AddWork(by_older, &result);
    AddWork(by_newer, &result);
    std::vector<Row> rows;
    absl::flat_hash_map<uint64_t, size_t> places;
    for (const SearchHit& hit : by_older.hits) {
      places[hit.internal_id] = rows.size();
      rows.push_back({hit, hit.distance});
    }
    for (const SearchHit& hit : by_newer.hits) {
      const auto [at, fresh] = places.try_emplace(hit.internal_id, rows.size());
      if (fresh) rows.push_back({hit});
      rows[at->second].newer = hit.distance;
    }
    for (size_t begin = 0; begin < rows.size(); begin += kReadRows) {
      LC_RETURN_IF_ERROR(CheckAlive(*context_, "search"));
      const size_t n = std::min(kReadRows, rows.size() - begin);
      LC_RETURN_IF_ERROR(Complete(older_query, newer, std::span(rows).subspan(begin, n)));
    }
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
    // algorithm: Fagin, Lotem & Naor 2003). A likeness has no such order.
    const double unseen = fusion.Of(by_older.hits.back().distance, by_newer.hits.back().distance);
    if (plain && result.hits.size() == wanted && result.hits.back().distance < unseen) return result;
    const int64_t all = view_->VisibleRows(older.generation, older.view_generation) + 1;
    if (!plain && all > kExactRowsMax) {
      return FieldError(absl::StatusCode::kResourceExhausted, "exact",
                        StrCat("true with older_vectors, which ranks each of ", all - 1, " rows of generation ",
                               older.generation, " by both"),
                        StrCat("false where there are more than ", kExactRowsMax));
    }
    if (!plain && !one) one.emplace(large_);
    older.k = newer.k = std::max(older.k + 1, plain ? std::min(older.k * kExactGrowth, all) : all);
    const std::array<SearchRequest, 2> both = {older, newer};
    auto found = view_->SearchTogether(both);
    LC_ASSIGN_OR_RETURN(by_older, std::move(found[0]));
    LC_ASSIGN_OR_RETURN(by_newer, std::move(found[1]));
  }
}

DistanceCalibration Rescale(std::span<const double> older_distances, std::span<const double> own_distances,
                            SearchResult* result) {
  const DistanceFusion alone = DistanceFusion().OnScaleOf(own_distances, older_distances, older_distances);
  const DistanceCalibration map{alone.offset, alone.newer_slope};
  for (SearchHit& hit : result->hits) hit.distance = map.Of(hit.distance);
  return map;
}

}  // namespace lightcone::server
