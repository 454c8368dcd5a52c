// Locks a process in below folders: it reads and writes files there, and reaches nothing else of the machine. For work
// that opens files all the time, such as a training; what needs none takes base/lock_in.h. The kernel's Landlock bounds
// the files (Linux 5.13), the filter of system calls everything else.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lightcone {

// Absolute paths of folders, or of single files that are read. What is not there is left out.
struct LockedFolders {
  std::vector<std::string> read;   // besides fonts, shared libraries and what the kernel says of the processor
  std::vector<std::string> write;  // read, too
};

// Whether GoOnLockedIn works here. FAILED_PRECONDITION: why not. Threads: safe.
absl::Status CanLockInBelow();

// Goes on in a child of this process, which is locked in, and returns there. This process waits for it and ends as it
// ends, and the child ends when this process does. Symbolic links lead nowhere out of the folders, and the child makes
// none, nor pipes, sockets and devices. It keeps the standard streams and no other descriptor.
// FAILED_PRECONDITION: as CanLockInBelow; no child goes on, or the child that does is not locked in.
// Call it from the first thread, before the process starts another one or opens anything.
absl::Status GoOnLockedIn(const LockedFolders& folders);

}  // namespace lightcone
