// Probe sets in the store (docs/reference/formats/engine.md): a head, and the probes themselves.
// Encoders never fail; decoders answer DATA_LOSS with the field at fault, FAILED_PRECONDITION for a newer format.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/rollout_types.h"

namespace lightcone::server {

std::string EncodeProbeHead(const ProbeSetStatus& set);
absl::StatusOr<ProbeSetStatus> DecodeProbeHead(std::string_view bytes);

// One line of JSON, then the vectors and inputs of all probes in order.
std::string EncodeProbes(const std::vector<Probe>& probes);
absl::StatusOr<std::vector<Probe>> DecodeProbes(std::string_view bytes);

}  // namespace lightcone::server
