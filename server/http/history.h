// How collections changed since the server started: a few hundred points each, for the console's curves.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/engine.h"

namespace lightcone::server {

class History {
 public:
  struct Point {
    absl::Time time;
    uint32_t active_generation = 0;
    std::vector<std::pair<uint32_t, uint64_t>> items_by_generation;
    uint64_t items_done = 0, items_left = 0;  // counts of the backfill
    double recall = -1;                       // recent recall of live searches; -1: none were sampled
  };
  static constexpr size_t kPointsMax = 400;

  // Takes a point of every collection and forgets collections that are gone. When a collection has kPointsMax points,
  // every second one goes, and from then on points are taken half as often.
  void Sample(Engine& engine, absl::Time now);
  std::vector<Point> Of(const std::string& collection) const;

 private:
  struct Line {
    std::vector<Point> points;
    uint64_t every = 1, seen = 0;  // samples between two points, and samples so far
  };
  mutable absl::Mutex mu_;
  std::map<std::string, Line> lines_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lightcone::server
