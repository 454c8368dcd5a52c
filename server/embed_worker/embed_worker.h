// The other side of server/engine/embed/embed_worker.h: what `lightcone embed-worker` does.
#pragma once

#include "absl/status/status.h"
#include "base/lock_in.h"

namespace lightcone::server {

// Loads the encoder that the first frame on standard input names, and answers frames of inputs with frames of vectors
// on standard output, until standard input ends. What anything else here prints goes to standard error. The process
// locks itself in as `lock` says before it parses the encoder or an input. DATA_LOSS: what came is no frame.
// FAILED_PRECONDITION: the lock is required and does not work here. For the main thread of a process of its own.
absl::Status RunEmbedWorker(LockMode lock);

}  // namespace lightcone::server
