// LC_DCHECK: what a function's REQUIRES says, checked where it is called.
//
// A build without NDEBUG (debug, asan, tsan) ends the process with the condition's text when the condition is false.
// A release build does not evaluate the condition. Input of users is never checked by it: that is an error with a code.
// Threads: safe.
#pragma once

namespace lightcone {

// Prints where and what, and aborts.
[[noreturn]] void FailCheck(const char* file, int line, const char* condition);

}  // namespace lightcone

#ifdef NDEBUG
#define LC_DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define LC_DCHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::lightcone::FailCheck(__FILE__, __LINE__, #condition))
#endif
