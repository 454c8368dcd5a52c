// Whether a raw input fits an encoder that is a file. Threads: pure function.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "models/manifest.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

// INVALID_ARGUMENT below `field`: another shape than the encoder takes, another count of numbers, or one of them is not
// finite.
absl::Status CheckTensor(const TensorInput& tensor, const ManifestInput& input, const std::string& field);

// INVALID_ARGUMENT below `field`: the encoder takes no text.
absl::Status NoText(const std::string& field);

}  // namespace lightcone::server
