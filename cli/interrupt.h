// Ctrl-C as a request to stop, for commands that end by themselves once they are asked: what they made so far stays.
// Threads: one at a time in a process; flag() may be read from any thread.
#pragma once

#include <atomic>

namespace lightcone::cli {

// From construction to destruction SIGINT sets flag(); afterwards it does what it did before.
class StopOnInterrupt {
 public:
  StopOnInterrupt();
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  const std::atomic<bool>* flag() const;

 private:
  void (*previous_)(int);
};

}  // namespace lightcone::cli
