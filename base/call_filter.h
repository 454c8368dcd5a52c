// The kernel's filter of system calls (seccomp) for processes that are locked in. Whatever a list does not name is
// refused with EPERM, calls of later kernels included. Threads: safe.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "absl/status/status.h"

namespace lightcone {

enum class CallsAllowed {
  kOpenDescriptors,  // memory, threads, clocks, and descriptors that are open
  kFilesToo,         // files by name besides, whose reach another lock bounds
};

// The filter's program, for this process.
std::vector<sock_filter> MakeCallFilter(CallsAllowed allowed);

// FAILED_PRECONDITION: the kernel, the processor or this build has no filter, and why.
absl::Status CanFilterCalls();

// Gives up new privileges and puts the filter over all threads of the process, for good. FAILED_PRECONDITION: as
// CanFilterCalls, or the kernel takes none.
absl::Status FilterCalls(CallsAllowed allowed);

}  // namespace lightcone
