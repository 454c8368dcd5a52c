// The members of strict mode, as the command line reads them for its flags.
// Threads: plain values and pure functions.
#pragma once

#include "server/engine/api/strict_mode.h"
