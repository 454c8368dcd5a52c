// Scans by a device, before the CPU makes the other scans.
// Threads: reentrant.
#pragma once

#include <span>
#include <vector>

#include "index/search/leg_search.h"

namespace lightcone {

// Which of these segments the device scanned; their legs have the rows. The CPU scans the others: where there is no
// device, where a segment is not (yet) on it, for threads of lower priority than the process, for searches that nobody
// waits for, and where anything goes wrong.
std::vector<bool> ScanOnDevice(std::span<const LegSegment> segments);

}  // namespace lightcone
