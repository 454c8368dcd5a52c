// Writes the checkpoint of an index: the segments that count, and up to which change they hold everything.
//
// It is the commit point. A segment that it does not list is removed at the next start; one that it lists and that
// cannot be read is rebuilt from the store. State files are written first, so they may be newer than the checkpoint,
// never older. A replay of changes that they hold changes nothing, because a row's state only moves from live to
// superseded to deleted.
// Threads: one call at a time, beside everything else.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "index/life/index_state.h"

namespace lightcone {

// On an error the states and the garbage that were collected wait for the next checkpoint.
absl::Status WriteIndexCheckpoint(IndexState& state) ABSL_LOCKS_EXCLUDED(state.mu);

}  // namespace lightcone
