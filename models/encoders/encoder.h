// A trained encoder in use: images or tensors in, tangent vectors out. No torch in this header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/image.h"
#include "models/manifest.h"

namespace lightcone {

struct EncoderOptions {
  int threads = 0;             // of the tensor library, for the whole process; 0 leaves them as they are. 1 .. 256.
  int batch_max = 256;         // images in one forward pass; bounds the memory of a call. 1 .. 65536.
  std::string device = "cpu";  // where it runs: cpu, cuda or auto (DeviceFor). Vectors come back to the CPU.
};

// Owns the TorchScript module. Threads: every method is safe concurrently (calls run side by side). Vectors are z:
// after the rescale and *before the clip* (docs/internals/training-methods.md), so that their norm still tells
// uncertainty.
class Encoder {
 public:
  // Loads the TorchScript file at `path`, whose CRC-32C must be manifest.encoder_crc32c, and tries it on one zero
  // image. NOT_FOUND: no file. DATA_LOSS: truncated, corrupt, or not TorchScript (names the file). FAILED_PRECONDITION:
  // its output is not [n, manifest.dimension]. RESOURCE_EXHAUSTED: memory was missing.
  static absl::StatusOr<std::unique_ptr<Encoder>> Load(const std::string& path, const Manifest& manifest,
                                                       const EncoderOptions& options = {});

  // The two steps of Load, for a process that locks itself in between them (base/lock_in.h): `file` is what ReadBytes
  // gave for `path`, which only names it in errors.
  static absl::StatusOr<std::string> ReadBytes(const std::string& path);
  static absl::StatusOr<std::unique_ptr<Encoder>> LoadBytes(std::string file, const std::string& path,
                                                            const Manifest& manifest,
                                                            const EncoderOptions& options = {});
  // Uses once what opens files when it is first used: kernels that ask what the processor is, random numbers, threads.
  static void WarmUp(int threads);

  // Reads FOLDER/manifest.json and loads the encoder file that it names.
  static absl::StatusOr<std::unique_ptr<Encoder>> LoadFolder(const std::string& folder,
                                                             const EncoderOptions& options = {});

  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Resizes each image to the input size, converts channels, normalises, embeds. Returns n x dimension, row major; the
  // empty span gives an empty vector. INVALID_ARGUMENT names the image whose size, channels or pixel count is wrong.
  absl::StatusOr<std::vector<float>> EmbedImages(std::span<const Image> images) const;

  // The same for `count` images of exactly the input size, height x width x channels uint8, one after the other.
  absl::StatusOr<std::vector<float>> EmbedPixels(std::span<const uint8_t> pixels, int64_t count) const;

  // `nchw`: n x channels x height x width float32, already normalised. INVALID_ARGUMENT when its length is another, or
  // a value is not finite (names the position).
  absl::StatusOr<std::vector<float>> EmbedTensors(std::span<const float> nchw, int64_t n) const;

  int dimension() const { return manifest_.dimension; }
  const Manifest& manifest() const { return manifest_; }

  struct Impl;  // models/encoders/encoder_torch.h
  const Impl& impl() const { return *impl_; }

 private:
  Encoder(Manifest manifest, EncoderOptions options, std::unique_ptr<Impl> impl);

  const Manifest manifest_;
  const EncoderOptions options_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lightcone
