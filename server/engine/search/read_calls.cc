#include "server/engine/search/read_calls.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/trace.h"
#include "server/engine/collection/answer_bytes.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/item_reader.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/search/filtered_batch.h"
#include "server/engine/search/scroll_token.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kDefaultPage = 1'000;
constexpr int kAliveEvery = 256;   // items between looks at the deadline
constexpr int kInputRetries = 20;  // An item that is replaced before its input is read is read again.

absl::StatusOr<std::optional<Filter>> MakeFilter(const Collection& collection, const std::optional<FilterNode>& node) {
  if (!node) return std::optional<Filter>();
  LC_ASSIGN_OR_RETURN(Filter filter, Filter::Make(*node));
  LC_RETURN_IF_ERROR(CheckStrictFilter(collection.state()->record, &filter, /*writes=*/false));
  return std::optional<Filter>(std::move(filter));
}

// Takes off what has expired and is in `progress` all the same, until it is removed. `view` was pinned before that.
absl::Status TakeOffExpired(const Collection& collection, const PinnedView& view, const ProgressRecord& progress,
                            uint32_t view_generation, const CallContext& context,
                            std::map<uint32_t, uint64_t>* counts) {
  if (view.expired() == nullptr) return absl::OkStatus();
  absl::Status status;
  const auto take_off = [&](std::span<const uint64_t> ids) {
    const auto rows = collection.ResolveRows(ids, /*with_record=*/true);
    if (!rows.ok()) return rows.status();
    for (const ResolvedRow& row : *rows) {
      const bool counted = row.retired_sequence == 0 || row.retired_sequence > progress.sequence;
      if (!row.found || !counted || row.record.internal_id >= progress.next_internal_id) continue;
      uint64_t& count = (*counts)[HeadGeneration(row.record.generations, view_generation)];
      count -= std::min<uint64_t>(count, 1);
    }
    return absl::OkStatus();
  };
  view.expired()->ForEachIn(0, UINT64_MAX, [&](std::span<const uint64_t> ids) {
    status = CheckAlive(context, "count");
    if (status.ok()) status = take_off(ids);
    if (absl::IsDataLoss(status)) {  // A damaged item is counted, and the others are not.
      for (const uint64_t& id : ids) (void)take_off({&id, 1});
      status = absl::OkStatus();
    }
    return status.ok();
  });
  return status;
}

StoredItem ToStored(const ItemId& id, ItemReader::Read read, bool with_vector, const PayloadSelector& selector) {
  StoredItem item = ItemReader::ToStored(id, std::move(read), with_vector);
  item.payload_json = selector.Of(std::move(item.payload_json));
  return item;
}

}  // namespace

absl::StatusOr<GetAnswer> ReadCalls::Get(const std::string& name, const std::vector<ItemId>& ids, uint32_t generation,
                                         const ItemParts& parts, const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "get"));
  if (context.meter != nullptr) LC_RETURN_IF_ERROR(context.meter->BeginRead());
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  LC_RETURN_IF_ERROR(CheckCount(ids.size(), context_.options.limits.batch_items_max, "ids"));
  for (size_t i = 0; i < ids.size(); ++i) {
    LC_RETURN_IF_ERROR(CheckItemId(ids[i], context_.options.limits.id_bytes_max, StrCat("ids[", i, "]")));
  }
  LC_ASSIGN_OR_RETURN(const PayloadSelector selector, PayloadSelector::Make(parts.payload, "payload"));
  const auto state = served->collection->state();
  uint32_t view_generation = ViewGenerationOf(*state);
  if (generation != 0) {
    LC_RETURN_IF_ERROR(state->Resolve(generation).status());
    view_generation = generation;
  }
  Span store(context.trace, "store");
  store.Set("items", ids.size());
  const ItemReader reader(served->collection.get());
  GetAnswer answer;
  AnswerBytes bytes(context.answer_bytes_max);
  int64_t bytes_read = 0;
  ReadSize size;
  for (std::span<const ItemId> left = ids; !left.empty();) {
    LC_RETURN_IF_ERROR(CheckAlive(context, "get"));
    const std::span<const ItemId> now = left.first(size.Of(left.size()));
    left = left.subspan(now.size());
    LC_ASSIGN_OR_RETURN(auto read, reader.ReadItems(now, view_generation, /*exactly=*/generation != 0));
    int64_t read_bytes = 0;
    for (size_t i = 0; i < now.size(); ++i) {
      if (read[i].found) {
        answer.items.push_back(ToStored(now[i], std::move(read[i]), parts.with_vector, selector));
        read_bytes += BytesOf(answer.items.back());
      } else {
        answer.missing.push_back(now[i]);
        read_bytes += BytesOf(now[i]);
      }
    }
    LC_RETURN_IF_ERROR(bytes.Add(read_bytes));
    size.Note(read_bytes);
    bytes_read += read_bytes;
  }
  if (context.meter != nullptr) context.meter->CountRead(static_cast<int64_t>(answer.items.size()), bytes_read);
  return answer;
}

absl::StatusOr<RawInput> ReadCalls::GetInput(const std::string& name, const ItemId& id) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const Collection& collection = *served->collection;
  LC_RETURN_IF_ERROR(CheckItemId(id, context_.options.limits.id_bytes_max, "item"));
  const ItemReader reader(&collection);
  for (int attempt = 0; attempt < kInputRetries; ++attempt) {
    LC_ASSIGN_OR_RETURN(auto read,
                        reader.ReadItems({&id, 1}, ViewGenerationOf(*collection.state()), /*exactly=*/false));
    if (!read[0].found) return NotFound(StrCat("no item ", ToString(id), " in collection '", collection.name(), "'"));
    const auto stored =
        context_.store->Get(Table::kInputs, keys::Input(collection.number(), read[0].record.internal_id));
    if (stored.ok()) return DecodeInput(*stored);
    if (!absl::IsNotFound(stored.status())) return stored.status();
    if (!read[0].record.has_input) {
      return FailedPrecondition(StrCat("the input of item ", ToString(id), " was not kept (keep_input)"));
    }
  }
  return DataLoss(StrCat("item ", ToString(id), ": its input is missing from the store"));
}

absl::StatusOr<std::string> ReadCalls::ScrollTokenAt(const std::string& name, const ItemId& id) const {
  LC_RETURN_IF_ERROR(CheckItemId(id, context_.options.limits.id_bytes_max, "id"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const uint32_t number = served->collection->number();
  return EncodeScrollTokenAt(number, keys::Item(number, id));
}

absl::StatusOr<ScrollPage> ReadCalls::Scroll(const std::string& name, const std::optional<FilterNode>& node,
                                             int64_t page_size, const std::string& token, const ItemParts& parts,
                                             const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "scroll"));
  if (context.meter != nullptr) LC_RETURN_IF_ERROR(context.meter->BeginRead());
  std::optional<ScrollToken> from;
  if (!token.empty()) {
    LC_ASSIGN_OR_RETURN(from, DecodeScrollToken(token));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, FindScrolled(context_.catalog, name, from));
  const Collection& collection = *served->collection;
  if (page_size < 0 || page_size > context_.options.limits.page_items_max) {
    return InvalidField("page_size", StrCat(page_size),
                        StrCat("0 (the default) .. ", context_.options.limits.page_items_max));
  }
  if (page_size == 0) page_size = std::min(kDefaultPage, context_.options.limits.page_items_max);
  LC_ASSIGN_OR_RETURN(const std::optional<Filter> filter, MakeFilter(collection, node));
  LC_ASSIGN_OR_RETURN(const PayloadSelector selector, PayloadSelector::Make(parts.payload, "payload"));
  const keys::Range range = keys::ItemRange(collection.number());
  LC_ASSIGN_OR_RETURN(const std::string begin, ScrollBegin(from, collection.number()));
  const uint32_t view_generation = ViewGenerationOf(*collection.state());
  const ItemReader reader(&collection);
  const auto iterator = collection.store()->Scan(Table::kItems, begin, range.end);
  ScrollPage page;
  page.collection = collection.name();
  const int64_t bytes_max = context.answer_bytes_max == 0 ? INT64_MAX : context.answer_bytes_max;
  int64_t bytes = 0;
  std::string last_key;
  bool more = false;
  while (iterator->Valid() && !more) {
    // A chunk of items is read with its embeddings in one go.
    const auto want = static_cast<size_t>(page_size) - page.items.size();
    LC_RETURN_IF_ERROR(CheckAlive(context, "scroll"));
    const size_t chunk_items = std::clamp<size_t>(want + 1, filter ? kAliveEvery : 1, 4096);
    const int64_t bytes_left = std::max<int64_t>(1, bytes_max - bytes);
    LC_ASSIGN_OR_RETURN(auto chunk, reader.ReadChunk(iterator.get(), chunk_items, bytes_left, view_generation,
                                                     filter ? &*filter : nullptr));
    for (auto& entry : chunk) {
      StoredItem item = ToStored(entry.id, std::move(entry.read), parts.with_vector, selector);
      bytes += BytesOf(item);
      more = page.items.size() == static_cast<size_t>(page_size) || (!page.items.empty() && bytes > bytes_max);
      if (more) break;
      last_key = std::move(entry.key);
      page.items.push_back(std::move(item));
    }
  }
  LC_RETURN_IF_ERROR(iterator->status());
  if (more) page.token = EncodeScrollToken({collection.number(), std::move(last_key)});
  if (context.meter != nullptr) context.meter->CountRead(static_cast<int64_t>(page.items.size()), bytes);
  return page;
}

absl::StatusOr<CountAnswer> ReadCalls::Count(const std::string& name, const std::optional<FilterNode>& node,
                                             const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "count"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  const Collection& collection = *served->collection;
  LC_ASSIGN_OR_RETURN(const std::optional<Filter> filter, MakeFilter(collection, node));
  const uint32_t view_generation = ViewGenerationOf(*collection.state());
  std::map<uint32_t, uint64_t> counts;
  if (!filter) {
    const PinnedView view = served->collection->Pin();
    const ProgressRecord progress = collection.progress();
    for (const auto& [generations, count] : progress.items) {
      counts[HeadGeneration(generations, view_generation)] += count;
    }
    LC_RETURN_IF_ERROR(TakeOffExpired(collection, view, progress, view_generation, context, &counts));
  } else {
    const keys::Range range = keys::ItemRange(collection.number());
    const ItemReader reader(&collection);
    const auto iterator = collection.store()->Scan(Table::kItems, range.begin, range.end);
    while (iterator->Valid()) {
      LC_RETURN_IF_ERROR(CheckAlive(context, "count"));
      LC_RETURN_IF_ERROR(reader.CountChunk(iterator.get(), kAliveEvery, view_generation, *filter, &counts));
    }
    LC_RETURN_IF_ERROR(iterator->status());
  }
  CountAnswer answer;
  for (const auto& [generation, count] : counts) {
    answer.by_generation.emplace_back(generation, count);
    answer.count += count;
  }
  return answer;
}

}  // namespace lightcone::server
