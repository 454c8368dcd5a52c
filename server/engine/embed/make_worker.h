// What embeds stored inputs for one generation, with the server's options: a process of low priority, or an endpoint.
// Threads: reentrant.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/embed/inputs_encoder.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// A process that only decodes inputs. `purpose` names the file with what the process says. The process starts when it
// is first needed.
absl::StatusOr<std::unique_ptr<EmbedWorker>> MakeDecoder(const Context& context, const Collection& collection,
                                                         std::string_view purpose);

// The generation's encoder; `context` must outlive it. Inputs count as those of items.
absl::StatusOr<std::unique_ptr<InputsEncoder>> MakeInputsEncoder(const Context& context, const Collection& collection,
                                                                 const GenerationRecord& generation,
                                                                 std::string_view purpose);

}  // namespace lightcone::server
