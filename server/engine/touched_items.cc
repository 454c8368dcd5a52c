#include "server/engine/touched_items.h"

#include <algorithm>
#include <utility>

namespace lightcone::server {

void TouchedItems::Note(const SearchAnswer& answer, uint32_t generation) {
  if (!mu_.TryLock()) return;
  for (const QueryAnswer& result : answer.results) {
    for (const EngineHit& hit : result.hits) {
      if (hit.generation < generation && waiting_.insert(hit.id).second) order_.push_back(hit.id);
    }
  }
  for (; order_.size() > kItemsMax; order_.pop_front()) waiting_.erase(order_.front());
  mu_.Unlock();
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
