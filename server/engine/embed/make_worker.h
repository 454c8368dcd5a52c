// A process of low priority that embeds for one generation, with the server's options.
// Threads: reentrant.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// Without a generation the process only decodes inputs. `purpose` names the file with what the process says. The
// process starts when it is first needed.
absl::StatusOr<std::unique_ptr<EmbedWorker>> MakeEmbedWorker(const Context& context, const Collection& collection,
                                                             const GenerationRecord* generation,
                                                             std::string_view purpose);

}  // namespace lightcone::server
