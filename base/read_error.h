// The status of a failed read. Threads: pure function.
#pragma once

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone {

// ErrnoStatus, but DATA_LOSS where the disk or its file system reports lost content (EIO, EUCLEAN, EBADMSG): the file
// must be made anew. Other errors are temporary.
inline absl::Status ReadError(int error, std::string_view step, std::string_view path) {
  const absl::Status status = ErrnoStatus(error, step, path);
  return error == EIO || error == EUCLEAN || error == EBADMSG ? DataLoss(MessageOf(status)) : status;
}

}  // namespace lightcone
