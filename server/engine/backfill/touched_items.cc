#include "server/engine/backfill/touched_items.h"

#include <algorithm>
#include <new>
#include <utility>

namespace lightcone::server {
namespace {

// Once a backfill is done, searches return nothing older, and so take no lock.
bool FoundOlder(const SearchAnswer& answer, uint32_t generation) {
  return std::any_of(answer.results.begin(), answer.results.end(), [&](const QueryAnswer& result) {
    return std::any_of(result.hits.begin(), result.hits.end(),
                       [&](const EngineHit& hit) { return hit.generation < generation; });
  });
}

}  // namespace

void TouchedItems::Note(const SearchAnswer& answer, uint32_t generation) {
  if (!FoundOlder(answer, generation) || !mu_.TryLock()) return;
  try {
    NoteHits(answer, generation);
  } catch (const std::bad_alloc&) {
    // An id that order_ alone holds may come twice, which costs a read.
  }
  mu_.Unlock();
}

void TouchedItems::NoteHits(const SearchAnswer& answer, uint32_t generation) {
  for (const QueryAnswer& result : answer.results) {
    for (size_t i = 0; i < std::min(kHitsMax, result.hits.size()); ++i) {
      if (order_.size() == kItemsMax) return;
      const EngineHit& hit = result.hits[i];
      if (hit.generation >= generation || waiting_.contains(hit.id)) continue;
      order_.push_back(hit.id);
      waiting_.insert(hit.id);
    }
  }
}

std::vector<ItemId> TouchedItems::Take(size_t count) {
  absl::MutexLock lock(&mu_);
  std::vector<ItemId> taken;
  for (count = std::min(count, order_.size()); taken.size() < count; order_.pop_front()) {
    waiting_.erase(order_.front());
    taken.push_back(std::move(order_.front()));
  }
  return taken;
}

}  // namespace lightcone::server
