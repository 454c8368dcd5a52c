#include "index/search/device_search.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/priority.h"
#include "index/gpu/serving_device.h"
#include "index/search/leg_search.h"

namespace lightcone {
namespace {

// What one search asks of the device, and which tasks that is.
struct Asked {
  LegSearch* search = nullptr;
  gpu::DeviceQuery query;
  std::vector<DeviceTask*> tasks;  // a part of the query each
};

// Adds the task's segment to what is asked, if it is there.
bool AddPart(gpu::ScanDevice& device, const DeviceTask& task, gpu::DeviceQuery* query) {
  const PinnedSegment& pinned = task.search->segment(task.index);
  if (pinned.rows < device.options().rows_min) return false;
  gpu::DevicePart part;
  part.rows = device.RowsOf(pinned.segment);
  if (part.rows == nullptr || part.rows->count() != pinned.rows) return false;
  if (!task.search->ServesAll(task.index)) {
    part.allowed = device.BitsOf(*part.rows, pinned.counts, task.search->request().view_generation,
                                 [&task](uint32_t row) { return task.search->Serves(task.index, row); });
    if (part.allowed == nullptr) return false;
  }
  query->parts.push_back(std::move(part));
  return true;
}

std::vector<Asked> AskedOf(gpu::ScanDevice& device, std::span<DeviceTask> tasks) {
  std::vector<Asked> all;
  absl::flat_hash_map<LegSearch*, size_t> known;
  absl::flat_hash_set<LegSearch*> gone;
  for (DeviceTask& task : tasks) {
    LegSearch& search = *task.search;
    // What it needs of the device may take long to make. The CPU says why there is no answer.
    if (gone.contains(&search)) continue;
    if (!search.Interrupted().ok()) {
      gone.insert(&search);
      continue;
    }
    if (!search.FitsDevice() || search.wanted() > gpu::kDeviceKMax) continue;
    const auto [at, news] = known.try_emplace(&search, all.size());
    if (news) {
      all.push_back({&search, {}, {}});
      all.back().query.query = &search.query();
      all.back().query.k = search.wanted();
      all.back().query.floor = search.floor();
      all.back().query.gave_up = [&search] { return !search.Interrupted().ok(); };
    }
    if (AddPart(device, task, &all[at->second].query)) all[at->second].tasks.push_back(&task);
  }
  std::erase_if(all, [&](const Asked& asked) { return asked.tasks.empty() || gone.contains(asked.search); });
  return all;
}

}  // namespace

bool ScanOnDevice(std::span<DeviceTask> tasks) {
  if (tasks.empty()) return false;
  const std::shared_ptr<gpu::ScanDevice> device = gpu::ServingDevice();
  if (device == nullptr || device->lost()) return false;
  // Measurements and jobs have the CPU's spare time: on the device, where they take turns, searches would wait for
  // them.
  if (ThreadStandsBack()) return false;
  std::vector<Asked> asked = AskedOf(*device, tasks);
  std::vector<gpu::DeviceQuery> queries;
  for (Asked& one : asked) queries.push_back(std::move(one.query));
  const std::vector<gpu::DeviceAnswer> answers = device->Scan(queries);
  bool any = false;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i].complete) continue;
    any = true;
    for (DeviceTask* task : asked[i].tasks) {
      asked[i].search->BeginScan(task->index);
      task->done = true;
    }
    for (const gpu::FoundRow& found : answers[i].rows) {
      asked[i].search->TakeFound(asked[i].tasks[found.part]->index, found.score, found.error, found.row);
    }
  }
  return any;
}

}  // namespace lightcone
