// Gives a pair of generations the adapter in a file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/context.h"
#include "lightcone/v1/generations.pb.h"

namespace lightcone::cli {

struct AdapterPlace {
  std::string collection;
  uint32_t from = 0, to = 0;
  std::string request_id;  // may be empty
};

// Errors of the file and of the call.
absl::StatusOr<v1::AdapterInfo> PutAdapterFile(Context& context, const AdapterPlace& place, const std::string& file);

}  // namespace lightcone::cli
