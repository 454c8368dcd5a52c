#include "server/engine/search/facet_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "server/engine/api/engine.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/filter/field_values.h"
#include "server/engine/search/filtered_batch.h"
#include "server/engine/search/search.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kFacetItems = 256;                      // items between looks at the deadline
constexpr size_t kFacetIds = 4'096;                      // ids between looks at the deadline
constexpr int64_t kFacetBytes = 16 << 20;                // bytes that reading holds at once
constexpr absl::Duration kFacetWait = absl::Seconds(1);  // longest wait until writes on their way are indexed

using Counts = std::vector<std::pair<FieldValue, uint64_t>>;

absl::Status TooManyValues(const FacetCall& call) {
  return ResourceExhausted(StrCat("field '", call.field, "' has more than ", kFacetValuesMax,
                                  " different values, the most that a facet counts; a filter leaves fewer"));
}

// The internal ids of all items as of one moment, and then the payload index knows each of them. nullopt: it does not
// soon. The view that the caller has pinned keeps them in the index.
absl::StatusOr<std::optional<IdSet>> FindLiveIds(Collection& collection, const CallContext& context) {
  const keys::Range range = keys::InternalIdRange(collection.number());
  const auto iterator = collection.store()->Scan(Table::kItems, range.begin, range.end);
  IdSet live;
  std::vector<uint64_t> some;
  for (; iterator->Valid(); iterator->Next()) {
    LC_ASSIGN_OR_RETURN(some.emplace_back(), keys::ParseInternalId(iterator->key()));
    if (some.size() < kFacetIds) continue;
    LC_RETURN_IF_ERROR(CheckAlive(context, "facet"));
    live.AddMany(some);
    some.clear();
  }
  LC_RETURN_IF_ERROR(iterator->status());
  live.AddMany(some);
  const auto stored = collection.store()->Get(Table::kMeta, keys::Meta(ProgressName(collection.number())));
  if (absl::IsNotFound(stored.status())) return std::optional(std::move(live));
  LC_RETURN_IF_ERROR(stored.status());
  LC_ASSIGN_OR_RETURN(const ProgressRecord progress, DecodeProgress(*stored));
  CallContext wait = context;
  wait.deadline = std::min(context.deadline, absl::Now() + kFacetWait);
  if (!collection.WaitVisible(progress.sequence, wait).ok()) return std::optional<IdSet>();
  return std::optional(std::move(live));
}

// nullopt: the index does not have all that is asked for.
absl::StatusOr<std::optional<Counts>> CountByIndex(Collection& collection, const FacetCall& call,
                                                   const std::string& path, const Filter* filter,
                                                   const CallContext& context) {
  const auto none = std::optional<Counts>();
  const PayloadIndex& payloads = collection.payloads();
  bool complete = false;
  const absl::Status used =
      payloads.UseField(path, [&](const PayloadField&, const FieldIndex& index) { complete = index.complete(); });
  if (!used.ok() || !complete) return none;
  if (filter != nullptr && (filter->needs_generation() || filter->needs_uncertainty())) return none;
  const PinnedView view = collection.Pin();
  LC_ASSIGN_OR_RETURN(const std::optional<IdSet> live, FindLiveIds(collection, context));
  if (!live) return none;
  const std::shared_ptr<const IdSet> expired = collection.expiry().Expired();
  const auto is_gone = [&](uint64_t id) {
    return (view.expired() != nullptr && view.expired()->Contains(id)) || (expired != nullptr && expired->Contains(id));
  };
  CompiledFilter compiled;
  if (filter != nullptr) {
    LC_ASSIGN_OR_RETURN(const IdsOfConditions ids, FindIdsOfConditions(collection, *filter));
    compiled = payloads.Compile(filter->root(), 0, /*may_test=*/false, &ids);
    if (!compiled.exact()) return none;
  }
  Counts counts;
  bool too_many = false;
  const absl::Status walked = payloads.UseField(path, [&](const PayloadField&, const FieldIndex& index) {
    complete = index.complete();
    if (!complete) return;
    index.Walk({}, [&](const FilterValue& value, uint64_t id) {
      if (!live->Contains(id) || is_gone(id) || (filter != nullptr && !compiled.bounds.must.Contains(id))) return true;
      FieldValue counted = CountedValue(value);
      if (counts.empty() || counts.back().first != counted) {
        too_many = counts.size() == kFacetValuesMax;
        if (too_many) return false;
        counts.emplace_back(std::move(counted), 0);
      }
      ++counts.back().second;
      return true;
    });
  });
  if (too_many) return TooManyValues(call);
  if (!walked.ok() || !complete) return none;
  return std::optional(std::move(counts));
}

absl::StatusOr<Counts> CountByReading(const Collection& collection, const FacetCall& call, const PathKeys& keys,
                                      const Filter* filter, const CallContext& context) {
  const uint32_t view_generation = ViewGenerationOf(*collection.state());
  const ItemReader reader(&collection);
  const keys::Range range = keys::ItemRange(collection.number());
  const auto iterator = collection.store()->Scan(Table::kItems, range.begin, range.end);
  absl::flat_hash_map<FieldValue, uint64_t> counts;
  const auto count = [&](const std::string& payload_json) -> absl::Status {
    for (FieldValue& value : CountedValuesAt(payload_json, keys)) {
      ++counts[std::move(value)];
      if (counts.size() > kFacetValuesMax) return TooManyValues(call);
    }
    return absl::OkStatus();
  };
  const int64_t now_ms = collection.expiry().NowMs();
  while (iterator->Valid()) {
    LC_RETURN_IF_ERROR(CheckAlive(context, "facet"));
    if (filter != nullptr && filter->needs_uncertainty()) {
      LC_ASSIGN_OR_RETURN(const auto entries,
                          reader.ReadChunk(iterator.get(), kFacetItems, kFacetBytes, view_generation, filter));
      for (const auto& entry : entries) LC_RETURN_IF_ERROR(count(entry.read.record.payload_json));
      continue;
    }
    for (size_t i = 0; i < kFacetItems && iterator->Valid(); ++i, iterator->Next()) {
      LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(iterator->value()));
      if (IsExpired(record, now_ms)) continue;
      LC_ASSIGN_OR_RETURN(const ItemId id, keys::ParseItem(iterator->key()));
      if (record.generations.empty()) return DataLoss(StrCat("item ", ToString(id), " has no generation"));
      const uint32_t generation = HeadGeneration(record.generations, view_generation);
      if (filter != nullptr && !filter->Matches({&record.payload_json, generation, 0, &id})) continue;
      LC_RETURN_IF_ERROR(count(record.payload_json));
    }
  }
  LC_RETURN_IF_ERROR(iterator->status());
  return Counts(std::make_move_iterator(counts.begin()), std::make_move_iterator(counts.end()));
}

}  // namespace

absl::StatusOr<FacetAnswer> FacetCalls::Facet(const FacetCall& call, const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "facet"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  if (call.limit < 1 || call.limit > kFacetLimitMax) {
    return InvalidField("limit", StrCat(call.limit), StrCat("1 .. ", kFacetLimitMax));
  }
  LC_ASSIGN_OR_RETURN(const PathKeys keys, ParsePayloadPath(call.field, "field"));
  std::optional<Filter> filter;
  if (call.filter) {
    LC_ASSIGN_OR_RETURN(filter, Filter::Make(*call.filter));
    LC_RETURN_IF_ERROR(CheckStrictFilter(served->collection->state()->record, &*filter, /*writes=*/false));
  }
  const Filter* const passing = filter ? &*filter : nullptr;
  LC_ASSIGN_OR_RETURN(std::optional<Counts> counts,
                      CountByIndex(*served->collection, call, PathText(keys), passing, context));
  if (!counts) {
    LC_ASSIGN_OR_RETURN(counts, CountByReading(*served->collection, call, keys, passing, context));
  }
  FacetAnswer answer;
  answer.distinct = counts->size();
  std::sort(counts->begin(), counts->end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : IsValueBefore(a.first, b.first);
  });
  counts->resize(std::min(counts->size(), static_cast<size_t>(call.limit)));
  answer.values = *std::move(counts);
  return answer;
}

}  // namespace lightcone::server
