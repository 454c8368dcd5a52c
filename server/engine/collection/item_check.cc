#include "server/engine/collection/item_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "server/engine/collection/meta.h"
#include "store/keys.h"
#include "store/records.h"

namespace lightcone::server {
namespace {

constexpr size_t kBatchOperations = 4'096;

class ItemCheck {
 public:
  ItemCheck(Store& store, RepairReport::OfCollection* report)
      : store_(store), number_(report->number), report_(*report) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(ReadProgress());
    LC_RETURN_IF_ERROR(ReadItems());
    LC_RETURN_IF_ERROR(CheckIds());
    LC_RETURN_IF_ERROR(CheckExpiries());
    LC_RETURN_IF_ERROR(CheckEmbeddings());
    LC_RETURN_IF_ERROR(CheckInputs());
    LC_RETURN_IF_ERROR(DropBrokenItems());
    return WriteProgress();
  }

 private:
  struct Item {
    std::string key;
    ItemRecord record;
    bool named = false;      // the row that leads from the internal id to the item is there
    bool listed = false;     // the row by the time at which it expires is there
    bool has_input = false;  // its input is there
    size_t embeddings = 0;   // embeddings of the record's generations that are there
  };

  absl::Status ReadProgress() {
    const auto stored = store_.Get(Table::kMeta, keys::Meta(ProgressName(number_)));
    if (!stored.ok()) return absl::OkStatus();
    absl::StatusOr<ProgressRecord> decoded = DecodeProgress(*stored);
    if (!decoded.ok()) return absl::OkStatus();
    expected_ = decoded->ItemCount();
    progress_.sequence = decoded->sequence;
    progress_.next_internal_id = decoded->next_internal_id;
    return absl::OkStatus();
  }

  absl::Status ReadItems() {
    const keys::Range range = keys::ItemRange(number_);
    const auto rows = store_.Scan(Table::kItems, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      absl::StatusOr<ItemRecord> record = DecodeItem(rows->value());
      if (!record.ok()) {
        Lose(std::string(rows->key()));
        LC_RETURN_IF_ERROR(Delete(Table::kItems, std::string(rows->key())));
        continue;
      }
      progress_.sequence = std::max(progress_.sequence, record->sequence);
      progress_.next_internal_id = std::max(progress_.next_internal_id, record->internal_id + 1);
      record->payload_json.clear();
      const uint64_t id = record->internal_id;
      Item item;
      item.key = std::string(rows->key());
      item.record = *std::move(record);
      items_.insert_or_assign(id, std::move(item));
    }
    return rows->status();
  }

  absl::Status CheckIds() {
    const keys::Range range = keys::InternalIdRange(number_);
    const auto rows = store_.Scan(Table::kItems, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      LC_ASSIGN_OR_RETURN(const uint64_t id, keys::ParseInternalId(rows->key()));
      progress_.next_internal_id = std::max(progress_.next_internal_id, id + 1);
      const auto name = keys::DecodeItemId(rows->value());
      const auto found = items_.find(id);
      if (name.ok() && found != items_.end() && found->second.key == keys::Item(number_, *name)) {
        found->second.named = true;
        continue;
      }
      // The item's own row is lost, or is one of another time.
      if (name.ok() && found == items_.end()) Lose(keys::Item(number_, *name));
      LC_RETURN_IF_ERROR(Delete(Table::kItems, std::string(rows->key())));
    }
    return rows->status();
  }

  absl::Status CheckExpiries() {
    const keys::Range range = keys::ExpiryRange(number_);
    const auto rows = store_.Scan(Table::kItems, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      LC_ASSIGN_OR_RETURN(const keys::ExpiryKey key, keys::ParseExpiry(rows->key()));
      const auto found = items_.find(key.internal_id);
      if (found != items_.end() && found->second.record.expires_ms == key.expires_ms) {
        found->second.listed = true;
      } else {
        LC_RETURN_IF_ERROR(Delete(Table::kItems, std::string(rows->key())));
      }
    }
    LC_RETURN_IF_ERROR(rows->status());
    for (const auto& [id, item] : items_) {
      if (item.record.expires_ms == 0 || item.listed) continue;
      batch_.Put(Table::kItems, keys::Expiry(number_, item.record.expires_ms, id), "");
      LC_RETURN_IF_ERROR(WriteIfLarge());
    }
    return absl::OkStatus();
  }

  absl::Status CheckEmbeddings() {
    const keys::Range range = keys::CollectionRange(number_);
    const auto rows = store_.Scan(Table::kEmbeddings, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      LC_ASSIGN_OR_RETURN(const keys::EmbeddingKey key, keys::ParseEmbedding(rows->key()));
      progress_.next_internal_id = std::max(progress_.next_internal_id, key.internal_id + 1);
      const auto found = items_.find(key.internal_id);
      const bool known = found != items_.end() && std::ranges::count(found->second.record.generations, key.generation);
      if (known && DecodeEmbedding(rows->value()).ok()) {
        ++found->second.embeddings;
      } else {
        LC_RETURN_IF_ERROR(Delete(Table::kEmbeddings, std::string(rows->key())));
      }
    }
    return rows->status();
  }

  absl::Status CheckInputs() {
    const keys::Range range = keys::CollectionRange(number_);
    const auto rows = store_.Scan(Table::kInputs, range.begin, range.end);
    for (; rows->Valid(); rows->Next()) {
      LC_ASSIGN_OR_RETURN(const uint64_t id, keys::ParseInternalId(rows->key()));
      const auto found = items_.find(id);
      if (found != items_.end() && found->second.record.has_input) {
        found->second.has_input = true;
      } else {
        LC_RETURN_IF_ERROR(Delete(Table::kInputs, std::string(rows->key())));
      }
    }
    return rows->status();
  }

  absl::Status DropBrokenItems() {
    for (const auto& [id, item] : items_) {
      if (item.named && item.embeddings == item.record.generations.size()) {
        ++progress_.items[item.record.generations];
        if (item.record.has_input && !item.has_input) LC_RETURN_IF_ERROR(ForgetInput(item));
        continue;
      }
      Lose(item.key);
      LC_RETURN_IF_ERROR(Delete(Table::kItems, item.key));
      if (item.named) LC_RETURN_IF_ERROR(Delete(Table::kItems, keys::InternalId(number_, id)));
      if (item.record.expires_ms != 0) {
        LC_RETURN_IF_ERROR(Delete(Table::kItems, keys::Expiry(number_, item.record.expires_ms, id)));
      }
      for (const uint32_t generation : item.record.generations) {
        LC_RETURN_IF_ERROR(Delete(Table::kEmbeddings, keys::Embedding(number_, generation, id)));
      }
      if (item.has_input) LC_RETURN_IF_ERROR(Delete(Table::kInputs, keys::Input(number_, id)));
    }
    return absl::OkStatus();
  }

  absl::Status ForgetInput(const Item& item) {
    LC_ASSIGN_OR_RETURN(const std::string stored, store_.Get(Table::kItems, item.key));
    LC_ASSIGN_OR_RETURN(ItemRecord record, DecodeItem(stored));
    record.has_input = false;
    ++report_.inputs_lost;
    batch_.Put(Table::kItems, item.key, EncodeItem(record));
    return WriteIfLarge();
  }

  absl::Status WriteProgress() {
    report_.items = progress_.ItemCount();
    if (expected_ > report_.items) report_.items_lost = std::max(report_.items_lost, expected_ - report_.items);
    ++progress_.sequence;  // a write whose rows are lost may have had this one
    batch_.Put(Table::kMeta, keys::Meta(ProgressName(number_)), Encode(progress_));
    return store_.Write(std::exchange(batch_, {}), Durability::kProcess);
  }

  void Lose(const std::string& key) {
    ++report_.items_lost;
    const auto id = keys::ParseItem(key);
    if (id.ok() && report_.lost.size() < RepairReport::kLostNamesMax) report_.lost.push_back(ToString(*id));
  }

  absl::Status Delete(Table table, std::string key) {
    batch_.Delete(table, std::move(key));
    return WriteIfLarge();
  }

  absl::Status WriteIfLarge() {
    if (batch_.operations().size() < kBatchOperations) return absl::OkStatus();
    return store_.Write(std::exchange(batch_, {}), Durability::kProcess);
  }

  Store& store_;
  const uint32_t number_;
  RepairReport::OfCollection& report_;
  uint64_t expected_ = 0;  // number of items that the collection counted
  ProgressRecord progress_;
  absl::flat_hash_map<uint64_t, Item> items_;  // items by internal id, without their payloads
  WriteBatch batch_;
};

}  // namespace

absl::Status CheckItems(Store& store, RepairReport::OfCollection* report) { return ItemCheck(store, report).Run(); }

}  // namespace lightcone::server
