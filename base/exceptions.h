// Exceptions of the standard library, mostly of missing memory, as statuses.
#pragma once

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {

// The status of the exception being handled: RESOURCE_EXHAUSTED without memory, else INTERNAL with the exception's
// text. REQUIRES: called in a catch block. Threads: safe.
inline absl::Status StatusOfException() {
  LC_DCHECK(std::current_exception() != nullptr);
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory");
  } catch (const std::exception& error) {
    return Internal(StrCat("unexpected error: ", error.what()));
  } catch (...) {
    return Internal("unexpected error of an unknown kind");
  }
}

}  // namespace lightcone
