// A collection as operators and metrics see it.
// Threads: safe from any thread.
#pragma once

#include "server/engine/api/types.h"
#include "server/engine/services/served.h"

namespace lightcone::server {

CollectionStatus StatusOf(const Served& served);

}  // namespace lightcone::server
