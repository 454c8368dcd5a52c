// Judges what a power cut or a kill has left: opens it by an engine and compares it with what the oracle allows.
// Threads: one at a time. Each failure is one of the test that runs.
#pragma once

#include <string>

#include "tests/system/power_oracle.h"

namespace lightcone {

// Of the folder `base`, in which it opens the engine, restores what was copied, and writes an item that it deletes. It
// writes beside the folder as well. The answer is what is there.
PowerOracle::Seen ExpectKept(const std::string& base, const PowerOracle& oracle);

}  // namespace lightcone
