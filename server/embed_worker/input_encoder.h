// A generation's encoder as a child of a server runs it: stored raw inputs in, vectors out.
// Threads: one caller at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "models/encoders/encoder.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {

class InputEncoder {
 public:
  // Loads the encoder that `setup` names, if it names one. Errors as Encoder::Load.
  static absl::StatusOr<InputEncoder> Load(const EmbedSetup& setup);
  // The two steps of it: all that is read from the disk and does not parse what a caller sent, and the rest.
  static absl::StatusOr<std::string> ReadEncoder(const EmbedSetup& setup);
  static absl::StatusOr<InputEncoder> Load(const EmbedSetup& setup, std::string encoder);

  // One an input, in order, inputs as the store keeps them (raw_input.h): a vector before the clip, or the input's
  // error, which calls it "input". Where the network fails, every input of its batch has its error.
  EmbeddedInputs Embed(std::span<const std::string_view> inputs) const;

 private:
  InputEncoder(std::unique_ptr<const Encoder> encoder, const EmbedSetup& setup)
      : encoder_(std::move(encoder)),
        batch_max_(static_cast<size_t>(setup.batch_max)),
        limits_{.bytes_max = setup.input_bytes_max, .pixels_max = setup.image_pixels_max},
        decode_threads_(static_cast<size_t>(setup.decode_threads)) {}
  EmbeddedInputs EmbedTogether(std::span<const std::string_view> inputs) const;

  std::unique_ptr<const Encoder> encoder_;  // nullptr: inputs are only decoded
  size_t batch_max_;
  ImageLimits limits_;
  size_t decode_threads_;
};

}  // namespace lightcone::server
