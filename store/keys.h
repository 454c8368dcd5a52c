// Keys of every table. Integers are big endian, so that byte order is numeric order. Collections are numbered; a
// dropped collection's number is never used again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/records.h"

namespace lightcone::keys {

std::string Meta(std::string_view name);                               // kMeta
std::string CollectionName(std::string_view name);                     // kMeta: name or alias -> collection number
std::string Collection(uint32_t collection);                           // kCollections
std::string Generation(uint32_t collection, uint32_t generation);      // kGenerations
std::string Adapter(uint32_t collection, uint32_t from, uint32_t to);  // kGenerations, behind all generations
std::string Item(uint32_t collection, const ItemId& id);               // kItems; numbers sort before strings
std::string InternalId(uint32_t collection, uint64_t internal_id);     // kItems, a range of its own: -> external id
std::string Embedding(uint32_t collection, uint32_t generation, uint64_t internal_id);
std::string Order(uint32_t collection, uint32_t generation, float uncertainty, uint64_t internal_id);
std::string Change(uint32_t collection, uint64_t sequence);
std::string Input(uint32_t collection, uint64_t internal_id);
std::string ProbeHead(uint32_t collection, std::string_view name);  // kProbes; all heads before all bodies
std::string ProbeBody(uint32_t collection, std::string_view name);
std::string Job(uint64_t number);  // kJobs

// [begin, end) of every key of a collection (and generation) in the table that the function above is for.
struct Range {
  std::string begin, end;
};
Range ItemRange(uint32_t collection);  // external ids only
Range InternalIdRange(uint32_t collection);
Range CollectionRange(uint32_t collection);  // kGenerations, kEmbeddings, kOrder, kChanges, kInputs, kProbes
Range GenerationRange(uint32_t collection, uint32_t generation);  // kEmbeddings, kOrder
Range GenerationRecordRange(uint32_t collection);                 // kGenerations, without the adapters
Range AdapterRange(uint32_t collection);
Range ProbeHeadRange(uint32_t collection);

absl::StatusOr<ItemId> ParseItem(std::string_view key);          // DATA_LOSS for a key of another shape
absl::StatusOr<uint64_t> ParseInternalId(std::string_view key);  // of InternalId and Input keys
std::string EncodeItemId(const ItemId& id);                      // the value of InternalId keys
absl::StatusOr<ItemId> DecodeItemId(std::string_view bytes);
struct EmbeddingKey {
  uint32_t collection = 0, generation = 0;
  uint64_t internal_id = 0;
};
absl::StatusOr<EmbeddingKey> ParseEmbedding(std::string_view key);
absl::StatusOr<EmbeddingKey> ParseOrder(std::string_view key);
absl::StatusOr<float> OrderUncertainty(std::string_view key);
absl::StatusOr<uint64_t> ParseChange(std::string_view key);  // the sequence
absl::StatusOr<uint64_t> ParseJob(std::string_view key);     // the number

}  // namespace lightcone::keys
