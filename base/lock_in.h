// Locks the running process in before it runs code or parses bytes that are not its own. It keeps its memory, its
// threads, its clocks and the descriptors that it has, and reaches nothing else of the machine: no file, no connection,
// no program, no other process. Threads: CanLockIn is safe from any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace lightcone {

// What a process does about its lock.
enum class LockMode {
  kAuto,     // It locks itself in where that works, and says where it does not.
  kRequire,  // It locks itself in, or does not work.
  kOff,      // It stays as it is.
};
inline constexpr std::array<std::string_view, 3> kLockModeNames = {"auto", "require", "off"};  // names in order
constexpr std::string_view LockModeName(LockMode mode) { return kLockModeNames[static_cast<size_t>(mode)]; }
// INVALID_ARGUMENT, which names `field`: no such mode.
absl::Status ParseLockMode(std::string_view name, std::string_view field, LockMode* mode);

// Whether LockIn works here. FAILED_PRECONDITION: why not. A build with a sanitizer, whose runtime opens files at any
// time, is never locked in.
absl::Status CanLockIn();

// Closes all descriptors but the standard streams and `kept`, gives up new privileges, and has the kernel answer EPERM
// to what is refused, in all threads of the process, for good. What opens files when it is first used has to be used
// before. FAILED_PRECONDITION, with the descriptors closed: as CanLockIn, or the kernel refuses nothing.
absl::Status LockIn(std::span<const int> kept);

}  // namespace lightcone
