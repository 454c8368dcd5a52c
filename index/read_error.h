// What a failed step of reading a segment's file says about it.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/files.h"
#include "base/status.h"

namespace lightcone {

// As ErrnoStatus; DATA_LOSS where the disk or its file system says that what was written is lost (EIO, EUCLEAN,
// EBADMSG), which a rebuild from the store mends. Other errors pass, and the files are good. Threads: pure.
inline absl::Status ReadError(int error, std::string_view step, const std::string& path) {
  const absl::Status status = ErrnoStatus(error, step, path);
  return error == EIO || error == EUCLEAN || error == EBADMSG ? DataLoss(MessageOf(status)) : status;
}

}  // namespace lightcone
