#include "server/engine/id_cache.h"

#include <string>
#include <variant>

namespace lightcone::server {

std::optional<ItemId> IdCache::Find(uint64_t internal_id) const {
  const Shard& shard = shards_[ShardOf(internal_id)];
  absl::ReaderMutexLock lock(&shard.mu);
  const auto found = shard.ids.find(internal_id);
  if (found == shard.ids.end()) return std::nullopt;
  return found->second;
}

void IdCache::Add(uint64_t internal_id, const ItemId& id) {
  const auto* text = std::get_if<std::string>(&id.value);
  if (text != nullptr && text->size() > kTextBytesMax) return;
  Shard& shard = shards_[ShardOf(internal_id)];
  absl::MutexLock lock(&shard.mu);
  // The table's order is as good as random, so any victim is a fair one.
  if (shard.ids.size() >= kIdsOfShardMax) shard.ids.erase(shard.ids.begin());
  shard.ids.emplace(internal_id, id);
}

}  // namespace lightcone::server
