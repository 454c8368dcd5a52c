// Raw inputs as files that a browser shows.
// Threads: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

struct Picture {
  std::string type;  // media type, "image/png"
  std::string bytes;
};

// Returns image files (PNG, JPEG, WebP) as they are, and a tensor 1 x H x W or 3 x H x W as a bitmap whose values
// stretch from black to white. FAILED_PRECONDITION for other inputs.
absl::StatusOr<Picture> PictureOf(const RawInput& input);

}  // namespace lightcone::server
