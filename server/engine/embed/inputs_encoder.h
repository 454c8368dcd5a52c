// Embeds inputs as the store keeps them: a process beside the server, or an endpoint.
// Threads: as many callers at once as callers() says.
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

  virtual size_t callers() const { return 1; }
  virtual size_t requests() const { return 1; }         // calls that it works on at once, at most callers()
  virtual size_t inputs_at_once() const { return 64; }  // inputs that one call should bring

  // One an input (form of raw_input.h), in order: a vector before the clip, or why this input gets none. The outer
  // status: CANCELLED; FAILED_PRECONDITION: there is no use in going on, whatever the encoder is given; else an error
  // that may change.
  virtual absl::StatusOr<EmbeddedInputs> Embed(std::span<const std::string> inputs,
                                               const std::function<bool()>& cancelled) = 0;
};

}  // namespace lightcone::server
