// What a search says of itself, as JSON for programs and as text for people. Threads: all functions are safe.
#pragma once

#include <string>

#include "cli/json/message_json.h"
#include "lightcone/v1/retrieval.pb.h"

namespace lightcone::cli {

OrderedJson ProfileJson(const v1::SearchProfile& profile);
std::string ProfileText(const v1::SearchProfile& profile);

}  // namespace lightcone::cli
