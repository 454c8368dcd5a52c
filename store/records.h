// The records of the tables and their byte layout (docs/reference/formats/README.md). Encoders never fail. Decoders
// return DATA_LOSS with the record's kind and the damage, and are fuzzed. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

// An item's name given by the application.
struct ItemId {
  std::variant<uint64_t, std::string> value;  // number, or 1 .. 512 bytes of UTF-8
  friend bool operator==(const ItemId&, const ItemId&) = default;
  friend auto operator<=>(const ItemId&, const ItemId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ItemId& id) {
    return H::combine(std::move(hash), id.value);
  }
};
std::string ToString(const ItemId& id);

// The head record of an item. Every content version of an item has an internal id of its own, which is never reused.
// Rows of outdated content are therefore dead in every view. Embeddings of the same content by newer generations share
// the internal id.
struct ItemRecord {
  uint64_t internal_id = 0;
  uint64_t sequence = 0;              // sequence of the write that made this content or embedding current
  std::vector<uint32_t> generations;  // generations that embedded this content, ascending
  std::string payload_json;           // payload; "{}" for an item without one
  bool has_input = false;
  int64_t expires_ms = 0;  // milliseconds since 1970 from which the item is gone; 0: it stays
};

inline bool IsExpired(const ItemRecord& record, int64_t now_ms) {
  return record.expires_ms != 0 && record.expires_ms <= now_ms;
}

struct EmbeddingRecord {
  std::vector<float> z;   // tangent vector before the clip
  float uncertainty = 0;  // uncertainty by the norm before the clip, in [0, 1]
};

// One row of the change log, which an index replays after a restart.
struct ChangeRecord {
  enum class Kind : uint8_t { kAdd = 1, kDelete = 2 };
  struct Entry {
    Kind kind = Kind::kAdd;
    uint32_t generation = 0;  // kAdd: generation of the new embedding; kDelete: 0 for all generations
    uint64_t internal_id = 0;
    // kAdd: the older generations of the same content that this embedding supersedes.
    std::vector<uint32_t> supersedes;
  };
  std::vector<Entry> entries;  // entries in the order of the batch's rows
};

std::string EncodeItem(const ItemRecord& record);
absl::StatusOr<ItemRecord> DecodeItem(std::string_view bytes);
std::string EncodeEmbedding(const EmbeddingRecord& record);
absl::StatusOr<EmbeddingRecord> DecodeEmbedding(std::string_view bytes);
// Writes z to `out` and returns the uncertainty, without an allocation. DATA_LOSS for a record of another dimension.
absl::StatusOr<float> DecodeEmbeddingInto(std::string_view bytes, float* out, size_t dimension);
std::string EncodeChange(const ChangeRecord& record);
absl::StatusOr<ChangeRecord> DecodeChange(std::string_view bytes);

}  // namespace lightcone
