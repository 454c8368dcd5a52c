#include "server/engine/collection/item_reader.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "base/status.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kCountBytes = 16 << 20;  // bytes that counting holds at once
constexpr int kRetries = 20;               // An item that is replaced while it is read is read again.

}  // namespace

absl::StatusOr<std::vector<size_t>> ItemReader::ReadEmbeddings(std::vector<Read*> reads) const {
  std::vector<std::string> embedding_keys;
  for (const Read* read : reads) {
    embedding_keys.push_back(keys::Embedding(collection_->number(), read->generation, read->record.internal_id));
  }
  const auto embeddings = collection_->store()->MultiGet(Table::kEmbeddings, embedding_keys);
  std::vector<size_t> changed;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (absl::IsNotFound(embeddings[i].status())) {
      changed.push_back(i);
      continue;
    }
    LC_RETURN_IF_ERROR(embeddings[i].status());
    LC_ASSIGN_OR_RETURN(reads[i]->embedding, DecodeEmbedding(*embeddings[i]));
  }
  return changed;
}

absl::StatusOr<std::vector<ItemReader::Read>> ItemReader::ReadItems(std::span<const ItemId> ids,
                                                                    uint32_t view_generation, bool exactly) const {
  std::vector<Read> reads(ids.size());
  std::vector<size_t> left(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) left[i] = i;
  for (int attempt = 0; !left.empty(); ++attempt) {
    if (attempt == kRetries) {
      return DataLoss(StrCat("item ", ToString(ids[left[0]]), ": its embedding is missing from the store"));
    }
    std::vector<std::string> item_keys;
    for (const size_t i : left) item_keys.push_back(keys::Item(collection_->number(), ids[i]));
    const auto records = collection_->store()->MultiGet(Table::kItems, item_keys);
    const int64_t now_ms = collection_->expiry().NowMs();
    std::vector<Read*> found;
    std::vector<size_t> positions;
    for (size_t j = 0; j < left.size(); ++j) {
      Read& read = reads[left[j]];
      read = Read();
      if (absl::IsNotFound(records[j].status())) continue;
      LC_RETURN_IF_ERROR(records[j].status());
      LC_ASSIGN_OR_RETURN(read.record, DecodeItem(*records[j]));
      const auto& generations = read.record.generations;
      if (generations.empty()) return DataLoss(StrCat("item ", ToString(ids[left[j]]), " has no generation"));
      if (IsExpired(read.record, now_ms)) continue;
      if (exactly && !std::binary_search(generations.begin(), generations.end(), view_generation)) continue;
      read.found = true;
      read.generation = HeadGeneration(generations, view_generation);
      found.push_back(&read);
      positions.push_back(left[j]);
    }
    LC_ASSIGN_OR_RETURN(const std::vector<size_t> changed, ReadEmbeddings(std::move(found)));
    left.clear();
    for (const size_t c : changed) left.push_back(positions[c]);
  }
  return reads;
}

absl::StatusOr<std::vector<ItemReader::Entry>> ItemReader::ReadChunk(Iterator* iterator, size_t items,
                                                                     int64_t bytes_max, uint32_t view_generation,
                                                                     const Filter* filter) const {
  LC_DCHECK(bytes_max > 0);
  std::vector<Entry> entries;
  const auto state = collection_->state();
  const int64_t now_ms = collection_->expiry().NowMs();
  int64_t bytes = 0;
  const bool late_filter = filter != nullptr && filter->needs_uncertainty();
  for (size_t i = 0; i < items && bytes < bytes_max && iterator->Valid(); ++i, iterator->Next()) {
    Entry entry;
    entry.key = std::string(iterator->key());
    LC_ASSIGN_OR_RETURN(entry.id, keys::ParseItem(entry.key));
    LC_ASSIGN_OR_RETURN(entry.read.record, DecodeItem(iterator->value()));
    if (IsExpired(entry.read.record, now_ms)) continue;
    if (entry.read.record.generations.empty())
      return DataLoss(StrCat("item ", ToString(entry.id), " has no generation"));
    entry.read.generation = HeadGeneration(entry.read.record.generations, view_generation);
    entry.read.found = true;
    const FilterSubject subject{&entry.read.record.payload_json, entry.read.generation, 0, &entry.id};
    if (filter != nullptr && !late_filter && !filter->Matches(subject)) continue;
    const GenerationRecord* generation = state->Find(entry.read.generation);
    const size_t numbers = generation == nullptr ? 0 : static_cast<size_t>(generation->space.dimension);
    bytes += static_cast<int64_t>(entry.read.record.payload_json.size() + numbers * sizeof(float));
    entries.push_back(std::move(entry));
  }
  LC_RETURN_IF_ERROR(iterator->status());
  std::vector<Read*> reads;
  for (Entry& entry : entries) reads.push_back(&entry.read);
  LC_ASSIGN_OR_RETURN(const std::vector<size_t> changed, ReadEmbeddings(std::move(reads)));
  for (const size_t c : changed) {  // Replaced or deleted since the iterator's snapshot: as it is now.
    LC_ASSIGN_OR_RETURN(auto again, ReadItems({&entries[c].id, 1}, view_generation, /*exactly=*/false));
    Read& read = entries[c].read = std::move(again[0]);
    const FilterSubject now{&read.record.payload_json, read.generation, read.embedding.uncertainty, &entries[c].id};
    if (filter != nullptr && read.found) read.found = filter->Matches(now);
  }
  std::erase_if(entries, [&](const Entry& entry) {
    if (!entry.read.found) return true;
    return late_filter && !filter->Matches({&entry.read.record.payload_json, entry.read.generation,
                                            entry.read.embedding.uncertainty, &entry.id});
  });
  return entries;
}

absl::Status ItemReader::CountChunk(Iterator* iterator, size_t items, uint32_t view_generation, const Filter& filter,
                                    std::map<uint32_t, uint64_t>* counts) const {
  if (filter.needs_uncertainty()) {
    LC_ASSIGN_OR_RETURN(const auto entries, ReadChunk(iterator, items, kCountBytes, view_generation, &filter));
    for (const Entry& entry : entries) ++(*counts)[entry.read.generation];
    return absl::OkStatus();
  }
  const int64_t now_ms = collection_->expiry().NowMs();
  for (size_t i = 0; i < items && iterator->Valid(); ++i, iterator->Next()) {
    LC_ASSIGN_OR_RETURN(const ItemRecord record, DecodeItem(iterator->value()));
    if (IsExpired(record, now_ms)) continue;
    if (record.generations.empty()) return DataLoss("an item has no generation");
    const uint32_t generation = HeadGeneration(record.generations, view_generation);
    LC_ASSIGN_OR_RETURN(const ItemId id, keys::ParseItem(iterator->key()));
    if (filter.Matches({&record.payload_json, generation, 0, &id})) ++(*counts)[generation];
  }
  return iterator->status();
}

StoredItem ItemReader::ToStored(const ItemId& id, Read read, bool with_vector) {
  StoredItem item;
  item.id = id;
  item.payload_json = std::move(read.record.payload_json);
  item.generation = read.generation;
  item.generations = std::move(read.record.generations);
  item.uncertainty = read.embedding.uncertainty;
  if (with_vector) item.vector = std::move(read.embedding.z);
  item.sequence = read.record.sequence;
  item.has_input = read.record.has_input;
  if (read.record.expires_ms != 0) item.expires = absl::FromUnixMillis(read.record.expires_ms);
  return item;
}

}  // namespace lightcone::server
