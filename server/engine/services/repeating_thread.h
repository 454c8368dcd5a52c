// A thread that works, pauses and works again until its owner ends.
// Threads: the work runs in the thread; constructor and destructor belong to the owner.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lightcone::server {

class RepeatingThread {
 public:
  // `work` answers how long to pause before the next time. `niceness`: how far the thread stands back, 0 .. 19.
  RepeatingThread(int niceness, absl::Duration first_pause, std::function<absl::Duration()> work);
  ~RepeatingThread();  // waits for the work under way
  RepeatingThread(const RepeatingThread&) = delete;
  RepeatingThread& operator=(const RepeatingThread&) = delete;

 private:
  void Run(int niceness, absl::Duration pause);

  const std::function<absl::Duration()> work_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lightcone::server
