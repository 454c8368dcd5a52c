#include "server/engine/collection/id_cache.h"

#include <string>
#include <variant>

namespace lightcone::server {

std::optional<ItemId> IdCache::Find(uint64_t internal_id) const {
  const Shard& shard = shards_[ShardOf(internal_id)];
  absl::ReaderMutexLock lock(&shard.mu);
  for (const auto* ids : {&shard.newer, &shard.older}) {
    const auto found = ids->find(internal_id);
    if (found != ids->end()) return found->second;
  }
  return std::nullopt;
}

void IdCache::Add(uint64_t internal_id, const ItemId& id) {
  const auto* text = std::get_if<std::string>(&id.value);
  if (text != nullptr && text->size() > kTextBytesMax) return;
  Shard& shard = shards_[ShardOf(internal_id)];
  absl::MutexLock lock(&shard.mu);
  if (shard.newer.size() >= kIdsOfTableMax) {
    shard.older.swap(shard.newer);
    shard.newer.clear();
  }
  shard.newer.emplace(internal_id, id);
}

}  // namespace lightcone::server
