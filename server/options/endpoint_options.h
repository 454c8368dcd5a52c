// The rows of the option table about encoders that are endpoints. Threads: reentrant.
#pragma once

#include <vector>

#include "server/options/option_table.h"

namespace lightcone::server {

void AddEndpointOptions(std::vector<Option>* out);

}  // namespace lightcone::server
