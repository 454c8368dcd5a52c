// Secrets that nobody guesses, and their comparison. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lightcone::server::auth {

// 256 random bits as 43 characters of base64url. INTERNAL when the system gives none.
absl::StatusOr<std::string> RandomText();

// Whether the texts are the same. The time tells their lengths alone.
bool AreEqual(std::string_view a, std::string_view b);

}  // namespace lightcone::server::auth
