// Scans that a device makes for searches, before the CPU makes the others.
// Threads: reentrant.
#pragma once

#include <cstdint>
#include <span>

namespace lightcone {

class LegSearch;

// A segment that a search has to scan.
struct DeviceTask {
  LegSearch* search = nullptr;
  uint32_t index = 0;  // of the segment
  bool done = false;
};

// Marks the tasks that the device has done: the searches have their rows. True if there are any. Where there is no
// device, where a segment is not (or not yet) on it, for threads of lower priority than the process, for searches that
// nobody waits for, and where anything goes wrong, the CPU does as it would have.
bool ScanOnDevice(std::span<DeviceTask> tasks);

}  // namespace lightcone
