// Conversion of the conditions of filters that convert.cc leaves to it. Threads: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lightcone/v1/types.pb.h"
#include "server/engine/filter/filter.h"

namespace lightcone::server {

// A condition on ids, a nested object, a text or a place; any other is refused as not set.
absl::StatusOr<FilterNode> ConditionOf(const v1::Filter& filter, const std::string& path);

}  // namespace lightcone::server
