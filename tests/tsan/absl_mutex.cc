// Tells ThreadSanitizer about absl::Mutex and absl::CondVar. Debian builds Abseil without instrumentation, so that the
// sanitizer cannot see that they order memory, and reports every guarded field. The linker's --wrap sends our calls
// through these functions, which add the missing edges. Linked in thread-sanitized builds only.
//
// Conditions run inside Abseil, under the lock but before the edge is drawn (and, on behalf of a waiter, in the thread
// that unlocks), so their reads are left out.
#include "absl/synchronization/mutex.h"

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);

}  // extern "C"

namespace {

class Quiet {
 public:
  Quiet() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Quiet() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

}  // namespace

#define REAL(name) __real__ZN4absl7debian3##name
#define WRAP(name) __wrap__ZN4absl7debian3##name

// Takes the lock, or waits under it: edges after.
#define WRAP_LOCK(name)                          \
  extern "C" void REAL(name)(absl::Mutex * mu);  \
  extern "C" void WRAP(name)(absl::Mutex * mu) { \
    {                                            \
      Quiet quiet;                               \
      REAL(name)(mu);                            \
    }                                            \
    __tsan_acquire(mu);                          \
  }

#define WRAP_UNLOCK(name)                        \
  extern "C" void REAL(name)(absl::Mutex * mu);  \
  extern "C" void WRAP(name)(absl::Mutex * mu) { \
    __tsan_release(mu);                          \
    Quiet quiet;                                 \
    REAL(name)(mu);                              \
  }

#define WRAP_TRY(name)                           \
  extern "C" bool REAL(name)(absl::Mutex * mu);  \
  extern "C" bool WRAP(name)(absl::Mutex * mu) { \
    const bool locked = REAL(name)(mu);          \
    if (locked) __tsan_acquire(mu);              \
    return locked;                               \
  }

WRAP_LOCK(5Mutex4LockEv)
WRAP_LOCK(5Mutex10ReaderLockEv)
WRAP_UNLOCK(5Mutex6UnlockEv)
WRAP_UNLOCK(5Mutex12ReaderUnlockEv)
WRAP_TRY(5Mutex7TryLockEv)
WRAP_TRY(5Mutex13ReaderTryLockEv)

// Waiting: the lock is held before and after.
#define WRAP_WAIT(name, Result, PARAMETERS, ARGUMENTS) \
  extern "C" Result REAL(name) PARAMETERS;             \
  extern "C" Result WRAP(name) PARAMETERS {            \
    __tsan_release(mu);                                \
    struct Edge {                                      \
      void* address;                                   \
      ~Edge() { __tsan_acquire(address); }             \
    } edge{mu};                                        \
    Quiet quiet;                                       \
    return REAL(name) ARGUMENTS;                       \
  }

WRAP_WAIT(5Mutex5AwaitERKNS0_9ConditionE, void, (absl::Mutex * mu, const absl::Condition& c), (mu, c))
WRAP_WAIT(5Mutex8LockWhenERKNS0_9ConditionE, void, (absl::Mutex * mu, const absl::Condition& c), (mu, c))
WRAP_WAIT(5Mutex14ReaderLockWhenERKNS0_9ConditionE, void, (absl::Mutex * mu, const absl::Condition& c), (mu, c))
WRAP_WAIT(5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, bool,
          (absl::Mutex * mu, const absl::Condition& c, absl::Duration t), (mu, c, t))
WRAP_WAIT(5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, bool,
          (absl::Mutex * mu, const absl::Condition& c, absl::Time t), (mu, c, t))
WRAP_WAIT(7CondVar4WaitEPNS0_5MutexE, void, (absl::CondVar * cv, absl::Mutex* mu), (cv, mu))
WRAP_WAIT(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE, bool,
          (absl::CondVar * cv, absl::Mutex* mu, absl::Duration t), (cv, mu, t))
WRAP_WAIT(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE, bool, (absl::CondVar * cv, absl::Mutex* mu, absl::Time t),
          (cv, mu, t))

// One-shot events.
namespace {

struct Opaque;

}  // namespace

extern "C" {

void REAL(12Notification6NotifyEv)(Opaque* event);
void WRAP(12Notification6NotifyEv)(Opaque* event) {
  __tsan_release(event);
  REAL(12Notification6NotifyEv)(event);
}

void __real__ZNK4absl7debian312Notification19WaitForNotificationEv(Opaque* event);
void __wrap__ZNK4absl7debian312Notification19WaitForNotificationEv(Opaque* event) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(event);
  __tsan_acquire(event);
}

bool REAL(15BlockingCounter14DecrementCountEv)(Opaque* counter);
bool WRAP(15BlockingCounter14DecrementCountEv)(Opaque* counter) {
  __tsan_release(counter);
  return REAL(15BlockingCounter14DecrementCountEv)(counter);
}

void REAL(15BlockingCounter4WaitEv)(Opaque* counter);
void WRAP(15BlockingCounter4WaitEv)(Opaque* counter) {
  REAL(15BlockingCounter4WaitEv)(counter);
  __tsan_acquire(counter);
}

}  // extern "C"
