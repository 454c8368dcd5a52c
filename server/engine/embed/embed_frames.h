// What the server and the process that embeds for it say to each other (docs/reference/formats/engine.md): frames of a
// fixed head, whose body is checked by its length and CRC-32C, and the bodies. Each side takes the other's for what it
// may be: every length is checked before it is used. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone::server {

// One an input, in order: a vector before the clip, or its own error.
using EmbeddedInputs = std::vector<absl::StatusOr<std::vector<float>>>;

inline constexpr size_t kFrameHeadBytes = 24;
inline constexpr int kDecodeThreadsMax = 256;
inline constexpr uint64_t kImagePixelsMax = uint64_t{1} << 40;
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 31;  // longest body

enum class FrameKind : uint32_t {
  kSetup = 1,    // the server's first frame: EmbedSetup
  kReady = 2,    // the process's answer: the encoder is loaded, or not
  kInputs = 3,   // a frame of the server
  kVectors = 4,  // the process's answer to inputs
};

// Head and body. REQUIRES: a body of at most kFrameBytesMax.
std::string Frame(FrameKind kind, std::string_view body);

// Reads exactly so many bytes, or says why not.
using ReadBytes = std::function<absl::Status(char* out, size_t bytes)>;

// The body of the next frame. Errors of `read`; DATA_LOSS: it is no frame, of another version or kind, longer than
// `bytes_max`, or damaged.
absl::StatusOr<std::string> ReadFrame(const ReadBytes& read, FrameKind kind, uint64_t bytes_max);

struct EmbedSetup {
  std::string encoder_path;  // empty: inputs are only decoded, and their vectors are empty
  std::string manifest_json;
  uint32_t generation = 0;          // number in messages
  int threads = 1, batch_max = 64;  // threads of the network, and inputs of one run
  int64_t input_bytes_max = 32 << 20;
  int decode_threads = 1;  // threads that decode images, 1 .. kDecodeThreadsMax
  int64_t image_pixels_max = 36'000'000;
};
std::string EncodeSetup(const EmbedSetup& setup);
absl::StatusOr<EmbedSetup> DecodeSetup(std::string_view body);

std::string EncodeReady(const absl::Status& loaded);
// DATA_LOSS for a body that says neither, else what it says.
absl::Status DecodeReady(std::string_view body);

// `number` tells answers apart: they repeat it. Inputs as the store keeps them (raw_input.h).
std::string EncodeInputs(uint64_t number, std::span<const std::string> inputs);
struct EmbedInputs {
  uint64_t number = 0;
  std::vector<std::string_view> inputs;  // parts of the body
};
absl::StatusOr<EmbedInputs> DecodeInputs(std::string_view body);

std::string EncodeVectors(uint64_t number, const EmbeddedInputs& outputs);
// DATA_LOSS unless it is the answer to `number`: for so many inputs, each with a vector of `dimension` numbers or an
// error.
absl::StatusOr<EmbeddedInputs> DecodeVectors(std::string_view body, uint64_t number, size_t inputs, size_t dimension);
// The longest body that can be one.
uint64_t VectorsBytesMax(size_t inputs, size_t dimension);

}  // namespace lightcone::server
