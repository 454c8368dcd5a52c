#include "index/search/device_search.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/priority.h"
#include "index/gpu/serving_device.h"

namespace lightcone {
namespace {

// The query of one leg, and the number of the segment that each of its parts is.
struct LegQuery {
  LegSearch* leg = nullptr;
  gpu::DeviceQuery query;
  std::vector<size_t> segments;
};

// Adds the segment to the query, if it is on the device.
bool AddPart(gpu::ScanDevice& device, const LegSegment& one, gpu::DeviceQuery* query) {
  const ScopedRequest& scoped = one.leg->scoped();
  const PinnedSegment& pinned = one.leg->segment(one.index);
  if (pinned.rows < device.options().rows_min) return false;
  gpu::DevicePart part;
  part.rows = device.RowsOf(pinned.segment);
  if (part.rows == nullptr || part.rows->count() != pinned.rows) return false;
  if (!scoped.EveryRowPasses(pinned)) {
    part.allowed = device.BitsOf(*part.rows, pinned.counts, scoped.request->view_generation,
                                 [&](uint32_t row) { return scoped.Passes(pinned, row); });
    if (part.allowed == nullptr) return false;
  }
  query->parts.push_back(std::move(part));
  return true;
}

std::vector<LegQuery> QueriesOf(gpu::ScanDevice& device, std::span<const LegSegment> segments) {
  std::vector<LegQuery> all;
  absl::flat_hash_map<LegSearch*, size_t> known;
  absl::flat_hash_set<LegSearch*> gone;
  for (size_t i = 0; i < segments.size(); ++i) {
    LegSearch& leg = *segments[i].leg;
    // Bitmaps may take long to make. The CPU says why there is no answer.
    if (gone.contains(&leg)) continue;
    if (!leg.scoped().Interrupted().ok()) {
      gone.insert(&leg);
      continue;
    }
    // The device does not ask filters.
    if (leg.scoped().IsFiltered() || leg.k() > gpu::kDeviceKMax) continue;
    const auto [at, is_new] = known.try_emplace(&leg, all.size());
    if (is_new) {
      all.push_back({&leg, {}, {}});
      all.back().query.query = &leg.query();
      all.back().query.k = leg.k();
      all.back().query.floor = leg.floor();
      all.back().query.gave_up = [&leg] { return !leg.scoped().Interrupted().ok(); };
    }
    if (AddPart(device, segments[i], &all[at->second].query)) all[at->second].segments.push_back(i);
  }
  std::erase_if(all, [&](const LegQuery& one) { return one.segments.empty() || gone.contains(one.leg); });
  return all;
}

}  // namespace

std::vector<bool> ScanOnDevice(std::span<const LegSegment> segments) {
  std::vector<bool> done(segments.size(), false);
  if (segments.empty()) return done;
  const std::shared_ptr<gpu::ScanDevice> device = gpu::ServingDevice();
  if (device == nullptr || device->lost()) return done;
  // Measurements and jobs use the CPU's spare time. On the device, which takes turns, searches would wait for them.
  if (ThreadStandsBack()) return done;
  std::vector<LegQuery> asked = QueriesOf(*device, segments);
  std::vector<gpu::DeviceQuery> queries;
  for (LegQuery& one : asked) queries.push_back(std::move(one.query));
  const std::vector<gpu::DeviceAnswer> answers = device->Scan(queries);
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i].complete) continue;
    LegSearch& leg = *asked[i].leg;
    for (const size_t segment : asked[i].segments) {
      leg.BeginScan(segments[segment].index);
      done[segment] = true;
    }
    for (const gpu::FoundRow& found : answers[i].rows) {
      leg.TakeDeviceRow(segments[asked[i].segments[found.part]].index, found.score, found.error, found.row);
    }
  }
  return done;
}

}  // namespace lightcone
