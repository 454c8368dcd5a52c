// Which errno values say that something is used up for now. Threads: pure function.
#pragma once

#include <cerrno>

namespace lightcone {

// Whether an errno value says that disk (ENOSPC, EDQUOT), descriptors (EMFILE, ENFILE) or memory (ENOMEM) are used up:
// the same step may succeed later.
constexpr bool IsExhausted(int error) {
  return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE || error == ENOMEM;
}

}  // namespace lightcone
