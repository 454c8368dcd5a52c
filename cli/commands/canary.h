// A canary as JSON and as a table, for the commands that show one. Threads: all functions are safe.
#pragma once

#include <string>

#include "cli/json/message_json.h"
#include "lightcone/v1/generations.pb.h"

namespace lightcone::cli {

OrderedJson CanaryJson(const v1::CanaryInfo& canary);
// Both sides, side by side.
std::string CanaryTable(const v1::CanaryInfo& canary);

}  // namespace lightcone::cli
