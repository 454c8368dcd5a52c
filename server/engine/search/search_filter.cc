// The filter of a search: compiled into bitmaps as far as payload indexes go, and what the search says of itself.
#include <algorithm>

#include "absl/time/clock.h"
#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/collection/stored_payloads.h"
#include "server/engine/search/search.h"

namespace lightcone::server {
namespace {

constexpr size_t kQueriesTested = 8;
constexpr uint64_t kExpiredBesideMax = 64;

// Nested conditions stay out of it: they are answered by reading payloads.
absl::Status AddIdsOf(const FilterNode& node, const StoredPayloads& stored, IdsOfConditions* ids) {
  if (node.kind == FilterNode::Kind::kHasId) {
    LC_ASSIGN_OR_RETURN((*ids)[&node], stored.InternalIdsOf(node.ids));
  }
  if (node.kind == FilterNode::Kind::kNested) return absl::OkStatus();
  for (const FilterNode& child : node.children) LC_RETURN_IF_ERROR(AddIdsOf(child, stored, ids));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IdsOfConditions> FindIdsOfConditions(const Collection& collection, const Filter& filter) {
  IdsOfConditions ids;
  if (filter.needs_id()) LC_RETURN_IF_ERROR(AddIdsOf(filter.root(), StoredPayloads(&collection), &ids));
  return ids;
}

absl::Status SearchRun::CompileFilter() {
  if (filter_ == nullptr) return absl::OkStatus();
  LC_DCHECK(compiled_.empty());
  const absl::Time start = absl::Now();
  const PayloadIndex& payloads = collection_->payloads();
  LC_ASSIGN_OR_RETURN(const IdsOfConditions ids, FindIdsOfConditions(*collection_, *filter_));
  // A scan asks every row, and many queries ask many: a set is put together once for all of them.
  const bool may_test = !call_.exact && call_.queries.size() <= kQueriesTested;
  if (filter_->needs_generation()) {
    for (const uint32_t g : generations_) compiled_[g] = payloads.Compile(filter_->root(), g, may_test, &ids);
  } else {
    compiled_[0] = payloads.Compile(filter_->root(), 0, may_test, &ids);
  }
  compile_time_ = absl::Now() - start;
  uint64_t candidates = 0;
  bool asks = false;
  for (const auto& [generation, compiled] : compiled_) {
    if (compiled.exact()) continue;
    candidates = std::max(candidates, compiled.bounds.upper().CountMax(UINT64_MAX));
    asks = true;
  }
  if (!asks) return absl::OkStatus();
  rows_.Expect(candidates);
  keep_share_ = filter_->needs_uncertainty()
                    ? rows_.EstimateShareOfRows(*view_, generations_, view_generation_)
                    : rows_.EstimateShare(collection_->progress().next_internal_id, view_generation_);
  return absl::OkStatus();
}

double SearchRun::PassingShare() const {
  const uint64_t items = collection_->progress().ItemCount();
  if (filter_ == nullptr || items == 0) return 1;
  double most = 0;
  for (const auto& [generation, compiled] : compiled_) most = std::max(most, compiled.bounds.upper().Share(items));
  return std::min(most, keep_share_);
}

void SearchRun::LeaveExpiredOut(const std::vector<BoundVector>& queries) {
  if (view_.expired() == nullptr) return;
  const uint64_t count = view_.expired()->Count();
  // Legs of two vectors search again and again, until they have seen all that could matter.
  const auto has_older = [](const BoundVector& query) { return !query.older.empty(); };
  if (count <= kExpiredBesideMax && std::ranges::none_of(queries, has_older)) {
    expired_beside_ = static_cast<int64_t>(count);
  } else {
    unexpired_.ids = *view_.expired();
  }
}

void SearchRun::SetFilter(uint32_t generation, SearchRequest* request) {
  if (filter_ == nullptr) {
    if (!unexpired_.all()) request->ids = &unexpired_;
    return;
  }
  const CompiledFilter& compiled = compiled_.find(filter_->needs_generation() ? generation : 0)->second;
  const IdFilter& may = compiled.bounds.upper();
  if (!may.all()) request->ids = &may;
  const double unexpired_share = unexpired_.all() ? 1.0 : unexpired_.Share(collection_->progress().ItemCount());
  if (!compiled.exact()) {
    request->keep = [this, generation, &compiled](uint64_t internal_id, float uncertainty) {
      if (!unexpired_.Contains(internal_id)) return false;
      return compiled.bounds.must.Contains(internal_id) || rows_.Keeps(internal_id, generation, uncertainty);
    };
    request->keep_share = keep_share_ * unexpired_share;
  } else if (!unexpired_.all()) {
    request->keep = [this](uint64_t internal_id, float) { return unexpired_.Contains(internal_id); };
    request->keep_share = unexpired_share;
  }
}

SearchProfile SearchRun::ProfileOf(std::span<const Leg> legs) const {
  SearchProfile profile;
  for (const Leg& leg : legs) {
    if (!leg.result.ok()) continue;
    const SearchResult& result = *leg.result;
    profile.legs.push_back({leg.query, leg.generation, result.rows_scored, result.rows_refined, result.rows_reranked,
                            result.rows_adapted, result.segments, leg.fused(), leg.share.weight, leg.conditioned()});
  }
  if (!compiled_.empty()) {
    profile.indexed_fields = compiled_.begin()->second.indexed;
    profile.unindexed_fields = compiled_.begin()->second.unindexed;
  }
  profile.compile_ms = absl::ToDoubleMilliseconds(compile_time_);
  profile.payloads_read = rows_.payloads_read();
  return profile;
}

}  // namespace lightcone::server
