// Where an exception of the standard library (mostly: no memory) ends: a status, as every other error is.
#pragma once

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "base/status.h"

namespace lightcone {

// Of the exception being handled: RESOURCE_EXHAUSTED without memory, else INTERNAL with its text. REQUIRES: called in a
// catch block. Threads: safe from any.
inline absl::Status StatusOfException() {
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
