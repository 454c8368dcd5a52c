// The folder of a demo: whose it is, and what an earlier demo left there. Threads: all functions are safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lightcone::cli {

// Makes FOLDER a demo's, which the file LIGHTCONE-DEMO tells. FAILED_PRECONDITION when it holds something else, or when
// the server of an earlier demo runs in FOLDER/server.
absl::Status ClaimDemoFolder(const std::string& folder);

// Removes what an earlier demo left: server, models and report.
absl::Status ClearDemoFolder(const std::string& folder);

}  // namespace lightcone::cli
