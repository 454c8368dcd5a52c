#include "server/engine/search/filter_deletes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/filter/filter.h"
#include "server/engine/search/scroll_token.h"
#include "server/engine/write/writer.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kItemsAChunk = 256;  // items between looks at the deadline

void AddDeletion(const ItemId& id, const ItemRecord& record, const Filter& filter, WriteJob* job) {
  // A newer embedding of the same content changes what the filter says only if the filter asks for the embedding.
  const bool of_embedding = filter.needs_generation() || filter.needs_uncertainty();
  job->ids.push_back(id);
  job->expected.push_back({record.internal_id, of_embedding ? record.sequence : 0});
}

// Takes `items` items from the iterator, and those that pass into the job.
absl::Status CollectChunk(const Collection& collection, Iterator* iterator, int64_t items, const Filter& filter,
                          uint32_t view_generation, std::string* last_key, WriteJob* job) {
  if (filter.needs_uncertainty()) {
    const ItemReader reader(&collection);
    for (int64_t i = 0; i < items && iterator->Valid(); ++i) {
      *last_key = std::string(iterator->key());
      LC_ASSIGN_OR_RETURN(const auto entries, reader.ReadChunk(iterator, 1, INT64_MAX, view_generation, &filter));
      for (const auto& entry : entries) AddDeletion(entry.id, entry.read.record, filter, job);
    }
    return iterator->status();
  }
  for (int64_t i = 0; i < items && iterator->Valid(); ++i, iterator->Next()) {
    *last_key = std::string(iterator->key());
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(iterator->value()));
    LC_ASSIGN_OR_RETURN(const ItemId id, keys::ParseItem(*last_key));
    if (record.generations.empty()) return DataLoss(StrCat("item ", ToString(id), " has no generation"));
    const FilterSubject subject{&record.payload_json, HeadGeneration(record.generations, view_generation), 0};
    if (filter.Matches(subject)) AddDeletion(id, record, filter, job);
  }
  return iterator->status();
}

}  // namespace

absl::StatusOr<DeleteByFilterAnswer> FilterDeletes::DeleteByFilter(const DeleteByFilterCall& call,
                                                                   const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "delete"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  const Collection& collection = *served->collection;
  const int64_t most = context_.options.limits.batch_items_max;
  if (call.limit < 0 || call.limit > most) {
    return InvalidField("limit", StrCat(call.limit), StrCat("0 (the most) .. ", most));
  }
  const int64_t limit = call.limit == 0 ? most : call.limit;
  LC_ASSIGN_OR_RETURN(const Filter filter, Filter::Make(call.filter));
  const keys::Range range = keys::ItemRange(collection.number());
  std::optional<ScrollToken> from;
  if (!call.token.empty()) {
    LC_ASSIGN_OR_RETURN(from, DecodeScrollToken(call.token));
  }
  LC_ASSIGN_OR_RETURN(const std::string begin, ScrollBegin(from, collection.number()));
  const auto state = collection.state();
  const uint32_t view_generation = state->record.active_generation != 0 ? state->record.active_generation : UINT32_MAX;
  const auto iterator = collection.store()->Scan(Table::kItems, begin, range.end);
  WriteJob job;
  job.durability = call.durability;
  std::string last_key;
  int64_t room = limit;
  for (int64_t read = 0; iterator->Valid() && room > 0 && read < kItemsReadMax;) {
    LC_RETURN_IF_ERROR(CheckAlive(context, "delete"));
    const int64_t items = std::min(room, kItemsAChunk);  // all of which may pass
    LC_RETURN_IF_ERROR(CollectChunk(collection, iterator.get(), items, filter, view_generation, &last_key, &job));
    room = limit - static_cast<int64_t>(job.ids.size());
    read += items;
  }
  LC_RETURN_IF_ERROR(iterator->status());
  DeleteByFilterAnswer answer;
  if (iterator->Valid()) answer.token = EncodeScrollToken({collection.number(), std::move(last_key)});
  LC_ASSIGN_OR_RETURN(const WriteResult result, served->writer->Submit(&job, context));
  answer.sequence = result.sequence;
  answer.deleted = result.items;
  return answer;
}

}  // namespace lightcone::server
