#include "server/engine/services/repeating_thread.h"

#include <utility>

#include "base/priority.h"

namespace lightcone::server {

RepeatingThread::RepeatingThread(int niceness, absl::Duration first_pause, std::function<absl::Duration()> work)
    : work_(std::move(work)), thread_([this, niceness, first_pause] { Run(niceness, first_pause); }) {}

RepeatingThread::~RepeatingThread() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void RepeatingThread::Run(int niceness, absl::Duration pause) {
  if (niceness > 0) StandBack(niceness);
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), pause)) return;
    }
    pause = work_();
  }
}

}  // namespace lightcone::server
