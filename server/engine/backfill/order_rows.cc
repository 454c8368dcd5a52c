#include "server/engine/backfill/order_rows.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kTouchedLooks = 1'024;  // Most items that one call reads: searches add more meanwhile.

}  // namespace

bool WaitsFor(const ItemRecord& record, uint32_t generation) {
  return HeadGeneration(record.generations, generation) < generation && record.generations.back() <= generation;
}

absl::StatusOr<std::vector<std::string>> ScanOrder(const Collection& collection, const std::string& begin,
                                                   uint32_t generation, size_t count) {
  std::vector<std::string> found;
  const std::string end = keys::GenerationRange(collection.number(), generation).begin;
  const auto rows = collection.store()->Scan(Table::kOrder, begin, end);
  for (; rows->Valid() && found.size() < count; rows->Next()) found.emplace_back(rows->key());
  LC_RETURN_IF_ERROR(rows->status());
  return found;
}

absl::StatusOr<std::vector<OrderRow>> ReadOrder(const Collection& collection,
                                                const std::vector<std::string>& order_keys, uint32_t generation) {
  std::vector<OrderRow> rows(order_keys.size());
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].key = order_keys[i];
    LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey parsed, keys::ParseOrder(order_keys[i]));
    LC_ASSIGN_OR_RETURN(rows[i].uncertainty, keys::OrderUncertainty(order_keys[i]));
    ids.push_back(rows[i].internal_id = parsed.internal_id);
  }
  LC_ASSIGN_OR_RETURN(std::vector<ResolvedRow> items, collection.CurrentRows(ids));
  const int64_t now_ms = collection.expiry().NowMs();
  for (size_t i = 0; i < rows.size(); ++i) {
    const ItemRecord& record = items[i].record;
    rows[i].waits = items[i].found && !IsExpired(record, now_ms) && WaitsFor(record, generation);
    rows[i].id = std::move(items[i].id);
    rows[i].record = std::move(items[i].record);
  }
  return rows;
}

absl::Status RemoveFromOrder(const Collection& collection, const std::vector<OrderRow>& rows) {
  WriteBatch batch;
  for (const OrderRow& row : rows) batch.Delete(Table::kOrder, row.key);
  return batch.empty() ? absl::OkStatus() : collection.store()->Write(batch, Durability::kProcess);
}

std::vector<TouchedItem> TakeTouched(const Collection& collection, TouchedItems* from, size_t wanted,
                                     uint32_t generation, absl::FunctionRef<bool(const ItemRecord&)> hold) {
  std::vector<TouchedItem> taken;
  for (size_t looked = 0; taken.size() < wanted && looked < kTouchedLooks;) {
    std::vector<ItemId> ids = from->Take(std::min(wanted - taken.size(), kTouchedLooks - looked));
    if (ids.empty()) break;
    looked += ids.size();
    std::vector<std::string> item_keys;
    for (const ItemId& id : ids) item_keys.push_back(keys::Item(collection.number(), id));
    const auto records = collection.store()->MultiGet(Table::kItems, item_keys);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!records[i].ok()) continue;
      absl::StatusOr<ItemRecord> record = DecodeItem(*records[i]);
      if (!record.ok() || record->generations.empty() || IsExpired(*record, collection.expiry().NowMs())) continue;
      if (!WaitsFor(*record, generation) || !hold(*record)) continue;
      taken.push_back({std::move(ids[i]), *std::move(record)});
    }
  }
  return taken;
}

}  // namespace lightcone::server
