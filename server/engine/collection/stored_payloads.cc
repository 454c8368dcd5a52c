#include "server/engine/collection/stored_payloads.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "spdlog/spdlog.h"
#include "store/envelope.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

// The internal ids of these items (keys of kItems, whose heads are damaged): a walk over all of them.
absl::Status FindInternalIds(const Store& store, uint32_t number, const std::vector<std::string>& item_keys,
                             std::vector<uint64_t>* internal_ids) {
  std::set<std::string, std::less<>> wanted;
  for (const std::string& key : item_keys) {
    LC_ASSIGN_OR_RETURN(const ItemId id, keys::ParseItem(key));
    wanted.insert(keys::EncodeItemId(id));
  }
  const keys::Range range = keys::InternalIdRange(number);
  const auto ids = store.Scan(Table::kItems, range.begin, range.end);
  do {
    for (; ids->Valid(); ids->Next()) {
      if (!wanted.contains(ids->value())) continue;
      LC_ASSIGN_OR_RETURN(internal_ids->emplace_back(), keys::ParseInternalId(ids->key()));
    }
  } while (ids->SkipDamaged());
  return ids->status();
}

}  // namespace

absl::Status StoredPayloads::ForEachPayload(
    absl::FunctionRef<absl::Status(uint64_t internal_id, std::string_view json)> visit,
    std::vector<uint64_t>* damaged) {
  const keys::Range range = keys::ItemRange(collection_->number_);
  const auto items = collection_->store_->Scan(Table::kItems, range.begin, range.end);
  std::vector<std::pair<uint64_t, std::string>> retired;
  {
    // After the scan's snapshot: what it has no more, and a view may still show, is here.
    absl::MutexLock lock(&collection_->view_mu_);
    for (const auto& [internal_id, item] : collection_->retired_)
      retired.emplace_back(internal_id, item.record.payload_json);
  }
  for (const auto& [internal_id, json] : retired) LC_RETURN_IF_ERROR(visit(internal_id, json));
  std::vector<std::string> unread;
  const auto leave_out = [&](std::string key, const absl::Status& why) {
    const absl::StatusOr<ItemId> id = keys::ParseItem(key);
    spdlog::error("collection '{}': item {} is damaged, and passes no filter that a payload index answers: {}",
                  collection_->name(), id.ok() ? ToString(*id) : PrintableKey(key), MessageOf(why));
    unread.push_back(std::move(key));
  };
  while (true) {
    for (; items->Valid(); items->Next()) {
      const absl::StatusOr<ItemRecord> record = DecodeItem(items->value());
      if (!record.ok()) {
        leave_out(std::string(items->key()), record.status());
        continue;
      }
      LC_RETURN_IF_ERROR(visit(record->internal_id, record->payload_json));
    }
    const absl::Status why = items->status();
    std::optional<std::string> key = items->SkipDamaged();
    if (!key) {
      LC_RETURN_IF_ERROR(why);
      break;
    }
    leave_out(*std::move(key), why);
  }
  return unread.empty() ? absl::OkStatus()
                        : FindInternalIds(*collection_->store_, collection_->number_, unread, damaged);
}

absl::StatusOr<std::vector<bool>> StoredPayloads::Gone(std::span<const uint64_t> internal_ids) {
  std::vector<std::string> id_keys;
  for (const uint64_t id : internal_ids) id_keys.push_back(keys::InternalId(collection_->number_, id));
  const auto ids = collection_->store_->MultiGet(Table::kItems, id_keys);
  std::vector<bool> gone;
  absl::MutexLock lock(&collection_->view_mu_);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].ok() && !absl::IsNotFound(ids[i].status())) return ids[i].status();
    // Of a write that failed and came again: still there for a view.
    gone.push_back(!ids[i].ok() && !collection_->retired_.contains(internal_ids[i]));
  }
  return gone;
}

absl::StatusOr<IdSet> StoredPayloads::InternalIdsOf(std::span<const ItemId> ids) const {
  std::vector<std::string> item_keys;
  for (const ItemId& id : ids) item_keys.push_back(keys::Item(collection_->number_, id));
  const auto items = collection_->store_->MultiGet(Table::kItems, item_keys);
  std::vector<uint64_t> found;
  for (size_t i = 0; i < items.size(); ++i) {
    if (absl::IsNotFound(items[i].status())) continue;
    if (!items[i].ok()) return Annotate(items[i].status(), StrCat("item ", ToString(ids[i])));
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(*items[i]));
    found.push_back(record.internal_id);
  }
  const std::set<ItemId> wanted(ids.begin(), ids.end());
  {
    // After the store was read: what it has no more, and a view may still show, is here.
    absl::MutexLock lock(&collection_->view_mu_);
    for (const auto& [internal_id, item] : collection_->retired_) {
      if (wanted.contains(item.id)) found.push_back(internal_id);
    }
  }
  IdSet set;
  std::sort(found.begin(), found.end());
  set.AddMany(found);
  return set;
}

}  // namespace lightcone::server
