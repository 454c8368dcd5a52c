// Labelled images in memory, as every data set gives them and every training reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

// A block of images of one size: N x height x width x channels, uint8, row major, channels last (1 or 3).
struct ImageSet {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;  // dense class ids 0 .. classes-1, one an image

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t bytes_per_image() const { return int64_t{height} * width * channels; }
  const uint8_t* image(int64_t i) const { return pixels.data() + i * bytes_per_image(); }
};

// Per-channel statistics of the training images scaled to [0, 1]; used to normalise network inputs.
struct Normalisation {
  std::vector<float> mean, stddev;  // one value a channel
};

// Which random changes of an image keep its class.
enum class AugmentKind {
  kNone,
  kPhoto,    // random crop with padding and horizontal flip (CIFAR-style)
  kDrawing,  // small shift, rotation and scale; no flip (characters, digits)
};

struct Dataset {
  std::string name;                      // as the user wrote it, for example "cifar100:/data/cifar"
  std::vector<std::string> class_names;  // size = classes
  ImageSet train, test;
  Normalisation normalisation;
  AugmentKind augment = AugmentKind::kNone;
  std::string notes;  // what was done to the files' images: "resized from 105 x 105 to 32 x 32; ...", or empty

  int classes() const { return static_cast<int>(class_names.size()); }
};

// Opens a data set by its name: "glyphs", "cifar100:DIR", "idx:DIR", "npy:DIR", "folder:DIR". `seed` drives drawing
// (glyphs) and every random split. Errors name the file, the field, the value and what is allowed.
// Threads: safe. INVALID_ARGUMENT for an unknown name (lists the known ones), a class with one image, a set with no
// test items; NOT_FOUND for a missing file; DATA_LOSS for a truncated or corrupt one.
absl::StatusOr<Dataset> OpenDataset(std::string_view name, uint64_t seed);

// The names that OpenDataset knows, with a line of help each ("cifar100:DIR", "official binary layout ...").
std::vector<std::pair<std::string, std::string>> DatasetKinds();

// Encodes height x width x channels uint8 (channels last, 1 or 3) as a PNG file, for reports, payloads and raw-input
// queries; DecodeImage of models/image.h gives the same pixels back. INVALID_ARGUMENT for sizes that a PNG cannot have.
// Threads: safe.
absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int height, int width, int channels);

}  // namespace lightcone
