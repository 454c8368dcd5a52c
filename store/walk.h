// A walk over a table that continues after a damaged row.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "store/store.h"

namespace lightcone {

// Calls `visit` with every row of `rows`. `pass_over` gets the key and error of a row whose value is damaged, and of a
// row for which `visit` returns DATA_LOSS; the walk then continues. Any other error of either function ends the walk.
// Threads: those of `rows`.
absl::Status WalkPastDamage(Iterator& rows,
                            absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> visit,
                            absl::FunctionRef<absl::Status(std::string_view key, const absl::Status& why)> pass_over);

}  // namespace lightcone
