// A trained model's folder as what registers it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lightcone/v1/generations.pb.h"

namespace lightcone::cli {

// Manifest and encoder of the folder that `lightcone train` wrote; `encoder` names another file, if not empty. Errors of
// the files. Threads: safe.
absl::Status SetModelFolder(const std::string& folder, const std::string& encoder, v1::RegisterRequest* request);

}  // namespace lightcone::cli
