// The encoders of generations that are endpoints, made when they are needed. Threads: every method is safe from any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/endpoint_manifest.h"
#include "server/engine/collection/meta.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/embed/embed_role.h"
#include "server/engine/embed/endpoint_encoder.h"
#include "server/engine/services/thread_starter.h"

namespace lightcone::server {

// The endpoint that a generation's manifest names. DATA_LOSS: none.
absl::StatusOr<EndpointManifest> EndpointOf(const GenerationRecord& generation);

class EndpointEncoders {
 public:
  explicit EndpointEncoders(const EngineOptions& options);

  // Embeds a text by the endpoint of a manifest: whether it can be registered. FAILED_PRECONDITION: the operator does
  // not allow the endpoint, or it refuses; INVALID_ARGUMENT: its vectors are not of the manifest's length; other errors
  // as EndpointEncoder::Embed.
  absl::Status Try(const EndpointManifest& endpoint, int dimension, const std::function<bool()>& cancelled);

  // One an input, in order: a vector before the clip, or the input's error, also that of an endpoint that is down: it
  // costs the other queries of a call nothing. `field_of(i)` names input i. The outer status: DEADLINE_EXCEEDED and
  // CANCELLED of the call. REQUIRES: generation.endpoint.
  absl::StatusOr<EmbeddedInputs> Embed(uint32_t collection, const GenerationRecord& generation,
                                       std::span<const RawInput* const> inputs, EmbedRole role,
                                       const std::function<std::string(size_t)>& field_of, const CallContext& context);

  // Ends the encoder of a generation, or of all generations of a collection (0).
  void Forget(uint32_t collection, uint32_t generation);

  // The calls that wait for an endpoint fail, and so do all later ones.
  void Stop();

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // collection and generation
  struct Entry {
    std::shared_ptr<EndpointEncoder> encoder;
    absl::Time used;
  };

  absl::StatusOr<std::shared_ptr<EndpointEncoder>> Find(uint32_t collection, const GenerationRecord& generation);
  std::shared_ptr<EndpointEncoder> Make(const EndpointManifest& endpoint, int dimension);

  const EngineOptions options_;
  ThreadStarter starter_;  // before the encoders, which use it
  absl::Mutex mu_;
  std::map<Key, Entry> encoders_ ABSL_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<EndpointEncoder>> trials_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace lightcone::server
