// A generation as operators see it.
// Threads: pure.
#pragma once

#include <cstdint>

#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"

namespace lightcone::server {

// REQUIRES: `generation` is one of the state's.
GenerationStatus StatusOf(const Collection& collection, const CollectionState& state, uint32_t generation);

// StatusOf without the manifest, which may be long.
GenerationStatus StatusWithoutManifest(const Collection& collection, const CollectionState& state, uint32_t generation);

}  // namespace lightcone::server
