#include "server/engine/embed/embed_inputs.h"

#include "base/status.h"
#include "base/trace.h"
#include "server/engine/collection/checks.h"
#include "server/engine/embed/embedder.h"

namespace lightcone::server {

bool IsInputsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || !PartsOf(status).field.empty();
}

absl::StatusOr<EmbeddedInputs> EmbedInputs(const Context& engine, const Collection& collection,
                                           const GenerationRecord& generation, std::span<const RawInput* const> inputs,
                                           EmbedRole role, const std::function<std::string(size_t)>& field_of,
                                           const CallContext& context) {
  if (inputs.empty()) return EmbeddedInputs();
  if (!generation.has_encoder) {
    return FailedPrecondition(StrCat("generation ", generation.generation, " of collection '", collection.name(),
                                     "' has no encoder: the server cannot embed ", field_of(0),
                                     "; send a vector, or register a generation with an encoder"));
  }
  Span embed(context.trace, "embed");
  embed.Set("generation", generation.generation);
  embed.Set("inputs", inputs.size());
  LC_ASSIGN_OR_RETURN(EmbeddedInputs vectors,
                      engine.embedder->Embed(collection.number(), generation, inputs, role, field_of, context));
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (!vectors[i].ok()) continue;
    const absl::Status fits = CheckVector(generation.space, *vectors[i], field_of(i) + " embedded");
    if (!fits.ok()) vectors[i] = fits;
  }
  return vectors;
}

}  // namespace lightcone::server
