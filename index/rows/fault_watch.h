// Mapped files that end under the process. Where a file was cut short, or the disk cannot read it, the kernel sends
// SIGBUS to the thread that touches the page. For memory that is watched a handler raises a flag and puts zeros in
// place of everything from that page to the end of the mapping: the reader goes on, and learns from the flag afterwards
// that what it read is worth nothing. A SIGBUS anywhere else ends the process as it always did.
//
// Threads: watches come and go on any thread. The handler takes no lock and allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>

namespace lightcone {

class FaultWatch {
 public:
  // Watches `bytes` bytes at `begin`, the start of a page. `damaged` is only ever raised.
  // REQUIRES: `damaged` and the mapping outlive the watch.
  FaultWatch(const void* begin, size_t bytes, std::atomic<bool>* damaged);
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  struct Slot;

 private:
  Slot* const slot_;
};

}  // namespace lightcone
