// What a failed step of reading a file says about the file.
#pragma once

#include <cerrno>
#include <string_view>

#include "absl/status/status.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone {

// As ErrnoStatus; DATA_LOSS where the disk or its file system says that what was written is lost (EIO, EUCLEAN,
// EBADMSG), so that it has to be made anew. Other errors pass, and the file is good. Threads: pure.
inline absl::Status ReadError(int error, std::string_view step, std::string_view path) {
  const absl::Status status = ErrnoStatus(error, step, path);
  return error == EIO || error == EUCLEAN || error == EBADMSG ? DataLoss(MessageOf(status)) : status;
}

}  // namespace lightcone
