#include "server/engine/rollout/generation_status.h"

#include <algorithm>

#include "base/dcheck.h"
#include "base/status.h"
#include "server/engine/validation/validation.h"

namespace lightcone::server {

GenerationStatus StatusOf(const Collection& collection, const CollectionState& state, uint32_t generation) {
  GenerationStatus status = StatusWithoutManifest(collection, state, generation);
  status.manifest_json = state.Find(generation)->manifest_json;
  return status;
}

GenerationStatus StatusWithoutManifest(const Collection& collection, const CollectionState& state,
                                       uint32_t generation) {
  LC_DCHECK(state.Find(generation) != nullptr);
  const GenerationRecord& record = *state.Find(generation);
  GenerationStatus status;
  status.generation = generation;
  status.validation = record.validation;
  if (record.validation != nullptr) {
    status.validation_outdated = MessageOf(CheckCurrent(state, collection.progress(), generation, *record.validation));
  }
  const bool validated =
      record.validation != nullptr && record.validation->passed && status.validation_outdated.empty();
  status.state = record.retired                                 ? GenerationState::kRetired
                 : record.draft                                 ? GenerationState::kDraft
                 : state.record.active_generation == generation ? GenerationState::kActive
                 : validated                                    ? GenerationState::kValidated
                                                                : GenerationState::kRegistered;
  status.parent = record.parent;
  status.space = record.space;
  status.compatible_prefix = record.compatible_prefix;
  status.method = record.method;
  status.has_encoder = record.has_encoder;
  status.reach = state.reach.Of(generation);
  for (const auto& [generations, count] : collection.progress().items) {
    if (std::binary_search(generations.begin(), generations.end(), generation)) status.items += count;
  }
  status.registered = absl::FromUnixMicros(record.registered_us);
  if (record.activated_us) status.activated = absl::FromUnixMicros(*record.activated_us);
  return status;
}

}  // namespace lightcone::server
