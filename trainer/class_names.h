// The section "classes" of a training's checkpoint: the class of each row of the classifier. No torch here. Threads:
// pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

std::string ClassNamesToJson(const std::vector<std::string>& names);

// The names in the order of the rows. DATA_LOSS for a text without exactly `rows` names.
absl::StatusOr<std::vector<std::string>> ParseClassNames(std::string_view text, int64_t rows);

}  // namespace lightcone
