// The other side of server/engine/embed/embed_worker.h: what `lightcone embed-worker` does.
#pragma once

#include "absl/status/status.h"

namespace lightcone::server {

// Loads the encoder that the first frame on standard input names, and answers frames of inputs with frames of vectors
// on standard output, until standard input ends. What anything else here prints goes to standard error. DATA_LOSS: what
// came is no frame. For the main thread of a process of its own.
absl::Status RunEmbedWorker();

}  // namespace lightcone::server
