// What searches found lately goes before the order: it is held by internal id, wherever its key stands, and the key is
// kept here if the scan of the order comes past meanwhile.
#include <algorithm>
#include <utility>

#include "server/engine/backfill/backfill.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kFoundLooks = 1'024;  // that one call looks at, at most: searches fill up while it takes

}  // namespace

bool Backfill::Waits(const ItemRecord& record) const {
  return HeadGeneration(record.generations, record_->generation) < record_->generation &&
         record.generations.back() <= record_->generation;
}

void Backfill::NoteFound(const SearchAnswer& answer) {
  const uint32_t generation = embeds_.load();
  if (generation == 0) return;
  for_workers_.Note(answer, generation);
  for_encoder_.Note(answer, generation);
}

std::vector<Backfill::Found> Backfill::TakeFound(TouchedItems* from, size_t wanted,
                                                 absl::FunctionRef<bool(const ItemRecord&)> skip, OpenLease* lease) {
  std::vector<Found> taken;
  for (size_t looked = 0; taken.size() < wanted && looked < kFoundLooks;) {
    std::vector<ItemId> ids = from->Take(std::min(wanted - taken.size(), kFoundLooks - looked));
    if (ids.empty()) break;
    looked += ids.size();
    std::vector<std::string> item_keys;
    for (const ItemId& id : ids) item_keys.push_back(keys::Item(collection_->number(), id));
    const auto records = collection_->store()->MultiGet(Table::kItems, item_keys);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!records[i].ok()) continue;  // deleted; and what cannot be read is named by the order, when that comes to it
      absl::StatusOr<ItemRecord> record = DecodeItem(*records[i]);
      if (!record.ok() || record->generations.empty() || !Waits(*record) || skip(*record)) continue;
      if (!leased_.insert(record->internal_id).second) continue;
      passed_.emplace(record->internal_id, "");
      lease->items.push_back({"", record->internal_id});
      const uint32_t head = HeadGeneration(record->generations, record_->generation);
      taken.push_back({std::move(ids[i]), *std::move(record), head});
    }
  }
  return taken;
}

bool Backfill::Hold(uint64_t internal_id, const std::string& order_key) {
  if (leased_.insert(internal_id).second) return true;
  if (const auto passed = passed_.find(internal_id); passed != passed_.end()) passed->second = order_key;
  return false;
}

std::string Backfill::Release(const Leased& item) {
  leased_.erase(item.internal_id);
  if (!item.order_key.empty()) return item.order_key;
  const auto passed = passed_.extract(item.internal_id);
  return passed.empty() ? "" : passed.mapped();
}

void Backfill::NoteTried(const OpenLease& lease, bool finished) {
  std::vector<uint64_t> ids;
  for (const Leased& item : lease.items) {
    if (item.order_key.empty()) ids.push_back(item.internal_id);
  }
  if (ids.empty() || lease.own) return;
  const absl::StatusOr<std::vector<ResolvedRow>> rows = collection_->CurrentRows(ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (rows.ok() && (!(*rows)[i].found || !Waits((*rows)[i].record))) continue;  // it is done
    tried_.insert(ids[i]);
    const auto passed = passed_.find(ids[i]);
    if (finished && passed != passed_.end() && passed->second.empty()) behind_.insert(ids[i]);
  }
}

}  // namespace lightcone::server
