// The section "classes" of a training's checkpoint: the class that each row of its classifier stands for. No torch
// here. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

std::string ClassNamesToJson(const std::vector<std::string>& names);

// `rows` names, in the order of the rows. DATA_LOSS when the text is not that.
absl::StatusOr<std::vector<std::string>> ParseClassNames(std::string_view text, int64_t rows);

}  // namespace lightcone
