// Embeds raw inputs with the encoders of generations, in batches across concurrent calls. An encoder is loaded when it
// is first needed and kept. Threads: every method is safe from any thread. Decoding and resizing run in the caller; one
// thread runs the networks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/encoder.h"
#include "models/manifest.h"
#include "server/engine/api/types.h"

namespace lightcone::server {

struct EmbedderOptions {
  int threads = 1;
  int batch_max = 64;
  absl::Duration linger = absl::Milliseconds(2);
  int64_t queue_max = 4'096;
  int64_t input_bytes_max = 32 << 20;
  int niceness = 0;    // of the thread that runs the networks
  bool halves = true;  // a batch at which the network fails is tried by halves, so that an input fails alone
};

// One an input, in order: a vector before the clip, or its own error.
using EmbeddedInputs = std::vector<absl::StatusOr<std::vector<float>>>;

class Embedder {
 public:
  using Key = std::pair<uint32_t, uint32_t>;  // collection, generation

  explicit Embedder(const EmbedderOptions& options);
  ~Embedder();  // REQUIRES: no call is running.
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  // Loads an encoder file without keeping it: whether it can be registered. Errors as Encoder::Load.
  absl::Status Try(const std::string& path, const Manifest& manifest) const;

  // Vectors before the clip, or each input's own error; `field_of(i)` names input i in messages. The outer status: no
  // encoder could be loaded, RESOURCE_EXHAUSTED when the queue is full, DEADLINE_EXCEEDED, CANCELLED.
  absl::StatusOr<EmbeddedInputs> Embed(Key key, const std::string& encoder_path, const std::string& manifest_json,
                                       std::span<const RawInput* const> inputs,
                                       const std::function<std::string(size_t)>& field_of, const CallContext& context);

  // The same for inputs as the store keeps them (raw_input.h), each called "input" in messages.
  absl::StatusOr<EmbeddedInputs> EmbedStored(Key key, const std::string& encoder_path, const std::string& manifest_json,
                                             std::span<const std::string_view> stored, const CallContext& context);

  // Frees the encoders of a dropped collection.
  void Forget(uint32_t collection);

 private:
  // What one input has become in its caller: pixels of the encoder's size, or a tensor.
  struct Input {
    bool is_tensor = false;
    std::vector<uint8_t> pixels;
    std::vector<float> tensor;
  };
  // Inputs of one call that wait for the networks' thread; shared, because a caller may leave before it is served.
  struct Ticket {
    std::shared_ptr<const Encoder> encoder;
    Input input;
    absl::StatusOr<std::vector<float>> output;
    bool done = false;
  };
  using Tickets = std::vector<std::shared_ptr<Ticket>>;

  absl::StatusOr<std::shared_ptr<const Encoder>> EncoderOf(Key key, const std::string& path,
                                                           const std::string& manifest_json);
  absl::StatusOr<Input> Prepare(const RawInput& input, const Manifest& manifest, const std::string& field) const;
  absl::Status Serve(const Tickets& tickets, const CallContext& context);
  Tickets TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EmbeddedInputs Run(std::span<const std::shared_ptr<Ticket>> batch) ABSL_LOCKS_EXCLUDED(mu_);
  bool Stopping() ABSL_LOCKS_EXCLUDED(mu_);
  void Work();

  const EmbedderOptions options_;

  absl::Mutex load_mu_;  // one load at a time
  std::map<Key, std::shared_ptr<const Encoder>> encoders_ ABSL_GUARDED_BY(load_mu_);

  absl::Mutex mu_;
  std::deque<std::shared_ptr<Ticket>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lightcone::server
