#include "server/engine/core/collection_status.h"

#include <map>
#include <utility>

#include "server/engine/collection/model_watch.h"
#include "server/engine/write/writer.h"

namespace lightcone::server {

CollectionStatus StatusOf(const Served& served) {
  const Collection& collection = *served.collection;
  const auto state = collection.state();
  const ProgressRecord progress = collection.progress();
  IndexStats stats = collection.Stats();
  CollectionStatus status;
  status.name = state->record.name;
  status.metric = state->record.metric;
  status.curvature = state->record.curvature;
  status.index = state->record.index;
  status.require_generation = state->record.require_generation;
  status.default_ttl_ms = state->record.default_ttl_ms;
  status.foreign_vectors = state->record.foreign_vectors;
  status.scale_generation = state->record.scale_generation;
  status.strict_mode = state->record.strict_mode;
  status.model_watch = served.model_watch->Status();
  status.items_expired = collection.expiry().removed();
  status.active_generation = state->record.active_generation;
  const uint32_t view = status.active_generation != 0 ? status.active_generation : UINT32_MAX;
  std::map<uint32_t, uint64_t> by_generation;
  for (const auto& [generations, count] : progress.items) {
    by_generation[HeadGeneration(generations, view)] += count;
    status.items += count;
  }
  status.items_by_generation.assign(by_generation.begin(), by_generation.end());
  status.segments = std::move(stats.segments);
  status.index_choice = std::move(stats.choice);
  status.index_error = std::move(stats.last_error);
  status.write_error = served.writer->broken();
  status.payload_indexes = collection.payloads().Status();
  for (const PayloadIndexStatus& one : status.payload_indexes) {
    status.payload_index_bytes += static_cast<int64_t>(one.bytes);
  }
  status.aliases = state->record.aliases;
  status.created = absl::FromUnixMicros(state->record.created_us);
  status.sequence = progress.sequence;
  status.canary_generation = state->record.canary_generation;
  status.canary_share = state->record.canary_share;
  status.mapped_bytes = stats.mapped_bytes;
  status.heap_bytes = stats.heap_bytes + status.payload_index_bytes;
  for (const auto& [pair, adapter] : state->reach.adapters()) {
    status.heap_bytes += static_cast<int64_t>(adapter->adapter.bytes());
    if (adapter->rows != nullptr) status.heap_bytes += adapter->rows->bytes();
    if (adapter->carried == nullptr) continue;
    status.carried_rows += adapter->carried->rows();
    status.carried_bytes += adapter->carried->bytes();
  }
  status.mapped_bytes += status.carried_bytes;
  status.builds_total = stats.builds_total;
  status.rebuilds_total = stats.rebuilds_total;
  status.builds_running = stats.builds_running;
  status.segments_unchecked = stats.segments_unchecked;
  status.segments_damaged = stats.segments_damaged;
  return status;
}

}  // namespace lightcone::server
