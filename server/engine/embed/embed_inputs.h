// Raw inputs of a call, embedded by a generation's encoder. Threads: safe.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/collection/collection.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/embed/embed_role.h"
#include "server/engine/services/context.h"

namespace lightcone::server {

// Whether it is the input, stored or sent, that the encoder fails at, the next time as well. All else is an error of
// the moment.
bool IsInputsFault(const absl::Status& status);

// One an input, in order: a vector that the generation takes, or the input's error; `field_of(i)` names input i. The
// outer status: FAILED_PRECONDITION without an encoder, and the errors of Embedder::Embed.
absl::StatusOr<EmbeddedInputs> EmbedInputs(const Context& engine, const Collection& collection,
                                           const GenerationRecord& generation, std::span<const RawInput* const> inputs,
                                           EmbedRole role, const std::function<std::string(size_t)>& field_of,
                                           const CallContext& context);

}  // namespace lightcone::server
