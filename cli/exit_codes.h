// What `lightcone` gives back to its caller. docs/reference/cli.md lists the same table; programs may rely on it.
#pragma once

#include "absl/status/status.h"

namespace lightcone::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,      // anything not named below: INTERNAL, DATA_LOSS, UNIMPLEMENTED, a file that cannot be written
  kExitUsage = 2,        // flags or values that are not allowed; INVALID_ARGUMENT, OUT_OF_RANGE
  kExitNotFound = 3,     // NOT_FOUND: collection, generation, item, file
  kExitUnavailable = 4,  // no server, or no answer in time: UNAVAILABLE, DEADLINE_EXCEEDED
  kExitRefused = 5,      // the state does not allow it: FAILED_PRECONDITION, ABORTED, ALREADY_EXISTS
  kExitExhausted = 6,    // a limit, overload or a full disk: RESOURCE_EXHAUSTED
  kExitInterrupted = 130,  // CANCELLED: stopped by Ctrl-C
  kExitClosedPipe = 141,   // the reader of stdout went away, as for a program that SIGPIPE ends
};

// The exit code of a status.
int ExitCodeOf(const absl::Status& status);

}  // namespace lightcone::cli
