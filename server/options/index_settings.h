// The table of index settings, as the command line reads it for its flags and its JSON.
// Threads: plain values and pure functions.
#pragma once

#include "index/api/settings.h"
