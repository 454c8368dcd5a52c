// Walks over tables in which one damaged row is no reason to stop.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "store/store.h"

namespace lightcone {

// Every row of `rows` goes to `visit`. One whose value is damaged, or of which `visit` answers DATA_LOSS, goes to
// `pass_over` with why, and the walk goes on; any other error, also of `pass_over`, ends it. Threads: those of `rows`.
absl::Status WalkPastDamage(Iterator& rows,
                            absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> visit,
                            absl::FunctionRef<absl::Status(std::string_view key, const absl::Status& why)> pass_over);

}  // namespace lightcone
