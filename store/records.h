// What the tables hold: records and their byte layout (docs/reference/formats/README.md). Encoders never fail; decoders
// return DATA_LOSS with the record's kind and what was wrong, and are fuzzed.
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
  std::variant<uint64_t, std::string> value;  // string: 1 .. 512 bytes of UTF-8
  friend bool operator==(const ItemId&, const ItemId&) = default;
  friend auto operator<=>(const ItemId&, const ItemId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ItemId& id) {
    return H::combine(std::move(hash), id.value);
  }
};
std::string ToString(const ItemId& id);

// The head record of an item. Every content version of an item has an internal id of its own (never reused), so rows of
// outdated content are dead in every view; embeddings of the same content by newer generations share the internal id.
struct ItemRecord {
  uint64_t internal_id = 0;
  uint64_t sequence = 0;              // of the write that made this content or embedding current
  std::vector<uint32_t> generations;  // ascending: those that embedded this content
  std::string payload_json;           // "{}" when none
  bool has_input = false;
};

struct EmbeddingRecord {
  std::vector<float> z;   // before the clip
  float uncertainty = 0;  // from the norm before the clip, in [0, 1]
};

// One row of the change log: what an index must do again after a restart.
struct ChangeRecord {
  enum class Kind : uint8_t { kAdd = 1, kDelete = 2 };
  struct Entry {
    Kind kind = Kind::kAdd;
    uint32_t generation = 0;  // kAdd: of the new embedding. kDelete: 0 (all generations)
    uint64_t internal_id = 0;
    // kAdd: the older generations of the same content that this embedding supersedes.
    std::vector<uint32_t> supersedes;
  };
  std::vector<Entry> entries;  // one a row of the batch, in order
};

std::string EncodeItem(const ItemRecord& record);
absl::StatusOr<ItemRecord> DecodeItem(std::string_view bytes);
std::string EncodeEmbedding(const EmbeddingRecord& record);
absl::StatusOr<EmbeddingRecord> DecodeEmbedding(std::string_view bytes);
// Reads only z into `out` (REQUIRES: its size is the record's dimension, else DATA_LOSS); no allocation.
absl::StatusOr<float> DecodeEmbeddingInto(std::string_view bytes, float* out, size_t dimension);
std::string EncodeChange(const ChangeRecord& record);
absl::StatusOr<ChangeRecord> DecodeChange(std::string_view bytes);

}  // namespace lightcone
