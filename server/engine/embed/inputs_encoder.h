// Embeds inputs as the store keeps them: a process beside the server, or an endpoint. Threads: one at a time.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {

class InputsEncoder {
 public:
  virtual ~InputsEncoder() = default;

  // One an input (form of raw_input.h), in order: a vector before the clip, or why this input gets none. The outer
  // status: CANCELLED; FAILED_PRECONDITION: there is no use in going on, whatever the encoder is given; else an error
  // that may change.
  virtual absl::StatusOr<EmbeddedInputs> Embed(std::span<const std::string> inputs,
                                               const std::function<bool()>& cancelled) = 0;
};

}  // namespace lightcone::server
