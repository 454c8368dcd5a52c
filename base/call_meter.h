// Rows and bytes that a caller reads and writes. A meter counts them while a call runs, and refuses what passes a
// limit. A call that reads or writes several times is refused at the first time or not at all: the rest is counted, and
// later calls wait for it.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace lightcone {

class CallMeter {
 public:
  virtual ~CallMeter() = default;

  // Asked before a read. RESOURCE_EXHAUSTED, with the time after which it would pass, while a limit is used up.
  virtual absl::Status BeginRead() = 0;
  // Counts what a read answers. The answer is given even if it passes a limit: later calls wait for it.
  virtual void CountRead(int64_t rows, int64_t bytes) = 0;
  // Asked before a write. Takes its rows and bytes, or refuses as BeginRead does and takes nothing. What was taken
  // stays taken if the write fails.
  virtual absl::Status TakeWrite(int64_t rows, int64_t bytes) = 0;
};

}  // namespace lightcone
