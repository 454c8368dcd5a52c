// Judges what a power cut or a kill has left: opens it by an engine and compares it with what the oracle allows.
// Threads: one at a time. Each failure is one of the test that runs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/engine/api/engine.h"
#include "tests/system/power_oracle.h"

namespace lightcone {

// Holds the items of a collection of the workload against the states that each writer's items may be in, from the
// oldest to the newest, and searches, count and pages against the items. The answer is the index of each writer's
// state; a writer that is in none of them has failed the test.
std::vector<size_t> ExpectItems(server::Engine& engine, const std::string& name,
                                const std::vector<std::vector<PowerState>>& states, uint32_t active);

// Of the folder `base`, in which it opens the engine, restores what was copied, and writes an item that it deletes. It
// writes beside the folder as well. The answer is what is there.
PowerOracle::Seen ExpectKept(const std::string& base, const PowerOracle& oracle);

}  // namespace lightcone
