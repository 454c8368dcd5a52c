#include "server/engine/search/filtered_batch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/search/scroll_token.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kItemsAChunk = 256;  // items between looks at the deadline

void AddToJob(const ItemId& id, const ItemRecord& record, WriteJob* job) {
  job->ids.push_back(id);
  job->expected.push_back({record.internal_id, record.sequence});
}

// Takes `items` items from the iterator, and those that pass into the job.
absl::Status CollectChunk(const Collection& collection, Iterator* iterator, int64_t items, const Filter& filter,
                          uint32_t view_generation, std::string* last_key, WriteJob* job) {
  if (filter.needs_uncertainty()) {
    const ItemReader reader(&collection);
    for (int64_t i = 0; i < items && iterator->Valid(); ++i) {
      *last_key = std::string(iterator->key());
      LC_ASSIGN_OR_RETURN(const auto entries, reader.ReadChunk(iterator, 1, INT64_MAX, view_generation, &filter));
      for (const auto& entry : entries) AddToJob(entry.id, entry.read.record, job);
    }
    return iterator->status();
  }
  const int64_t now_ms = collection.expiry().NowMs();
  for (int64_t i = 0; i < items && iterator->Valid(); ++i, iterator->Next()) {
    *last_key = std::string(iterator->key());
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(iterator->value()));
    if (IsExpired(record, now_ms)) continue;
    LC_ASSIGN_OR_RETURN(const ItemId id, keys::ParseItem(*last_key));
    if (record.generations.empty()) return DataLoss(StrCat("item ", ToString(id), " has no generation"));
    const FilterSubject subject{&record.payload_json, HeadGeneration(record.generations, view_generation), 0, &id};
    if (filter.Matches(subject)) AddToJob(id, record, job);
  }
  return iterator->status();
}

}  // namespace

uint32_t ViewGenerationOf(const CollectionState& state) {
  return state.record.active_generation != 0 ? state.record.active_generation : UINT32_MAX;
}

absl::StatusOr<std::string> CollectFiltered(const Collection& collection, const FilteredBatch& batch,
                                            uint32_t view_generation, const CallContext& context, WriteJob* job) {
  if (batch.limit < 0 || batch.limit > batch.items_max) {
    return InvalidField("limit", StrCat(batch.limit), StrCat("0 (the most) .. ", batch.items_max));
  }
  const int64_t limit = batch.limit == 0 ? batch.items_max : batch.limit;
  const keys::Range range = keys::ItemRange(collection.number());
  std::optional<ScrollToken> from;
  if (!batch.token.empty()) {
    LC_ASSIGN_OR_RETURN(from, DecodeScrollToken(batch.token));
  }
  LC_ASSIGN_OR_RETURN(const std::string begin, ScrollBegin(from, collection.number()));
  const auto iterator = collection.store()->Scan(Table::kItems, begin, range.end);
  std::string last_key;
  int64_t room = limit;
  for (int64_t read = 0; iterator->Valid() && room > 0 && read < kFilteredReadsMax;) {
    LC_RETURN_IF_ERROR(CheckAlive(context, batch.step));
    const int64_t items = std::min(room, kItemsAChunk);  // all of which may pass
    LC_RETURN_IF_ERROR(CollectChunk(collection, iterator.get(), items, *batch.filter, view_generation, &last_key, job));
    room = limit - static_cast<int64_t>(job->ids.size());
    read += items;
  }
  LC_RETURN_IF_ERROR(iterator->status());
  return iterator->Valid() ? EncodeScrollToken({collection.number(), std::move(last_key)}) : std::string();
}

}  // namespace lightcone::server
