#include "base/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace lightcone {
namespace {

// struct sched_attr of sched_setattr(2), which not every system's headers have.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // nanoseconds
  std::uint64_t deadline = 0, period = 0;
};
static_assert(sizeof(SchedulerAttributes) == 48);

// Linux since 6.12: how long a thread likes to run before another does. One that wakes and likes less goes first; older
// systems pay no heed to it.
constexpr std::uint64_t kSliceNanoseconds = 20'000'000;

}  // namespace

// On Linux, the number 0 is the calling thread, and the process's number that of its first thread.
void StandBack(int niceness) {
  SchedulerAttributes attributes;
  attributes.nice = niceness;
  attributes.runtime = kSliceNanoseconds;
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  ::setpriority(PRIO_PROCESS, 0, niceness);
}

bool ThreadStandsBack() {
  return ::getpriority(PRIO_PROCESS, 0) > ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
}

}  // namespace lightcone
