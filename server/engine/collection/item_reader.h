// Reads items with the embedding that a view serves, straight from the store.
// Threads: const methods are safe from any thread. DATA_LOSS names the damaged record.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"
#include "server/engine/filter/filter.h"

namespace lightcone::server {

class ItemReader {
 public:
  explicit ItemReader(const Collection* collection) : collection_(collection) {}

  struct Read {
    bool found = false;
    ItemRecord record;
    uint32_t generation = 0;  // generation of `embedding`
    EmbeddingRecord embedding;
  };
  // One a id, in order. `exactly`: only an embedding of `view_generation` itself counts as found; else the head.
  absl::StatusOr<std::vector<Read>> ReadItems(std::span<const ItemId> ids, uint32_t view_generation,
                                              bool exactly) const;

  struct Entry {
    std::string key;
    ItemId id;
    Read read;
  };
  // Takes up to `items` keys from the iterator (of kItems) and keeps what passes the filter (nullptr: all). Takes no
  // more once what is kept has `bytes_max` bytes of payloads and vectors. REQUIRES: bytes_max > 0.
  absl::StatusOr<std::vector<Entry>> ReadChunk(Iterator* iterator, size_t items, int64_t bytes_max,
                                               uint32_t view_generation, const Filter* filter) const;

  // Adds up what passes, by head generation; reads embeddings only if the filter asks for the uncertainty.
  absl::Status CountChunk(Iterator* iterator, size_t items, uint32_t view_generation, const Filter& filter,
                          std::map<uint32_t, uint64_t>* counts) const;

  static StoredItem ToStored(const ItemId& id, Read read, bool with_vector);

 private:
  // Fills generation and embedding of those found; returns the positions whose item has changed since it was read.
  absl::StatusOr<std::vector<size_t>> ReadEmbeddings(std::vector<Read*> reads) const;

  const Collection* const collection_;
};

}  // namespace lightcone::server
