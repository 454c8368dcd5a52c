#include "server/http/history.h"

#include <utility>

namespace lightcone::server {

void History::Sample(Engine& engine, absl::Time now) {
  const absl::StatusOr<std::vector<CollectionStatus>> collections = engine.ListCollections();
  if (!collections.ok()) return;
  std::map<std::string, Point> fresh;
  for (const CollectionStatus& status : *collections) {
    Point point;
    point.time = now;
    point.active_generation = status.active_generation;
    point.items_by_generation = status.items_by_generation;
    if (const auto backfill = engine.GetBackfill(status.name); backfill.ok()) {
      point.items_done = backfill->items_done;
      point.items_left = backfill->items_left;
    }
    if (const auto live = engine.GetLiveRecall(status.name); live.ok()) {
      double expected = 0, found = 0;
      for (const LiveRecall& recall : live->recall) {
        expected += recall.recent_expected;
        found += recall.recent_found;
      }
      if (expected >= 1) point.recall = found / expected;
    }
    fresh[status.name] = std::move(point);
  }
  absl::MutexLock lock(&mu_);
  std::erase_if(lines_, [&](const auto& line) { return !fresh.contains(line.first); });
  for (auto& [name, point] : fresh) {
    Line& line = lines_[name];
    if (line.seen++ % line.every != 0) continue;
    line.points.push_back(std::move(point));
    if (line.points.size() < kPointsMax) continue;
    std::vector<Point> half;
    for (size_t i = 0; i < line.points.size(); i += 2) half.push_back(std::move(line.points[i]));
    line.points = std::move(half);
    line.every *= 2;
  }
}

std::vector<History::Point> History::Of(const std::string& collection) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto line = lines_.find(collection);
  return line == lines_.end() ? std::vector<Point>() : line->second.points;
}

}  // namespace lightcone::server
