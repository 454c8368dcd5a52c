// Keys of every table. Integers are big endian, so that byte order is numeric order. Collections are numbered; a
// dropped collection's number is never reused. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/records.h"

namespace lightcone::keys {

std::string Meta(std::string_view name);                               // key of kMeta
std::string CollectionName(std::string_view name);                     // key of kMeta by collection name or alias
std::string Collection(uint32_t collection);                           // key of kCollections
std::string Generation(uint32_t collection, uint32_t generation);      // key of kGenerations
std::string Adapter(uint32_t collection, uint32_t from, uint32_t to);  // key of kGenerations, after all generations
std::string Item(uint32_t collection, const ItemId& id);               // key of kItems; numbers sort before strings
std::string InternalId(uint32_t collection, uint64_t internal_id);     // key of kItems, after all external ids
// Key of kItems, after all internal ids: one for each item that expires, with an empty value.
std::string Expiry(uint32_t collection, int64_t expires_ms, uint64_t internal_id);
std::string Embedding(uint32_t collection, uint32_t generation, uint64_t internal_id);
std::string Order(uint32_t collection, uint32_t generation, float uncertainty, uint64_t internal_id);
std::string Change(uint32_t collection, uint64_t sequence);
std::string Input(uint32_t collection, uint64_t internal_id);
std::string ProbeHead(uint32_t collection, std::string_view name);  // key of kProbes, before all bodies
std::string ProbeBody(uint32_t collection, std::string_view name);
std::string Job(uint64_t number);  // key of kJobs

// [begin, end) of every key of a collection (and generation) in the table that the function above is for.
struct Range {
  std::string begin, end;
};
Range ItemRange(uint32_t collection);  // keys of external ids
Range InternalIdRange(uint32_t collection);
Range ExpiryRange(uint32_t collection);
// The part of it that expires after `after_ms`, and not after `until_ms`. REQUIRES: 0 <= after_ms < until_ms.
Range ExpiryRange(uint32_t collection, int64_t after_ms, int64_t until_ms);
// A collection's keys in kGenerations, kEmbeddings, kOrder, kChanges, kInputs and kProbes.
Range CollectionRange(uint32_t collection);
Range GenerationRange(uint32_t collection, uint32_t generation);  // keys of kEmbeddings and kOrder
Range GenerationRecordRange(uint32_t collection);                 // keys of kGenerations without the adapters
Range AdapterRange(uint32_t collection);
Range ProbeHeadRange(uint32_t collection);

// The parsers return DATA_LOSS for a key of another shape.
absl::StatusOr<ItemId> ParseItem(std::string_view key);
absl::StatusOr<uint64_t> ParseInternalId(std::string_view key);  // internal id of an InternalId or Input key
struct ExpiryKey {
  int64_t expires_ms = 0;
  uint64_t internal_id = 0;
};
absl::StatusOr<ExpiryKey> ParseExpiry(std::string_view key);
std::string EncodeItemId(const ItemId& id);  // value of an InternalId key
absl::StatusOr<ItemId> DecodeItemId(std::string_view bytes);
struct EmbeddingKey {
  uint32_t collection = 0, generation = 0;
  uint64_t internal_id = 0;
};
absl::StatusOr<EmbeddingKey> ParseEmbedding(std::string_view key);
absl::StatusOr<EmbeddingKey> ParseOrder(std::string_view key);
absl::StatusOr<float> OrderUncertainty(std::string_view key);
absl::StatusOr<uint64_t> ParseChange(std::string_view key);  // sequence of the change
absl::StatusOr<uint64_t> ParseJob(std::string_view key);     // number of the job

}  // namespace lightcone::keys
