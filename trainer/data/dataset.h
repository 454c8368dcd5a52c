// Labelled images, as every data set gives them and every training reads them: in memory, or decoded when read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lightcone {

class ImageSource;  // trainer/data/image_source.h

// Images of one size: N x height x width x channels, uint8, row major, channels last (1 or 3). A set that is too large
// for memory has a source in place of pixels and decodes each image when it is read.
struct ImageSet {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // empty where there is a source
  std::vector<int32_t> labels;  // dense class ids 0 .. classes-1, one an image
  std::shared_ptr<const ImageSource> source = nullptr;
  std::vector<int64_t> source_rows = {};  // image i is the source's image source_rows[i]

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t bytes_per_image() const { return int64_t{height} * width * channels; }
  bool in_memory() const { return source == nullptr; }
  // REQUIRES: in_memory().
  const uint8_t* image(int64_t i) const { return pixels.data() + i * bytes_per_image(); }

  // Writes bytes_per_image() bytes of image `i`, wherever it is. Errors name the file. Threads: safe.
  absl::Status Read(int64_t i, uint8_t* out) const;
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

// How test images are compared where the authors of a data set ask for more than "each with all others".
struct TestProtocol {
  std::vector<int64_t> queries, gallery;  // rows of the test set
  // One a test image, or empty. A gallery item of the query's class *and* camera is left out of its ranking.
  std::vector<int32_t> cameras;
};

struct Dataset {
  std::string name;                      // as the user wrote it, for example "cifar100:/data/cifar"
  std::vector<std::string> class_names;  // size = classes
  ImageSet train, test;
  Normalisation normalisation;
  AugmentKind augment = AugmentKind::kNone;
  std::string notes;  // what was done to the files' images: "resized from 105 x 105 to 32 x 32; ...", or empty
  std::optional<TestProtocol> protocol = std::nullopt;  // without it, query set = gallery set = test set

  int classes() const { return static_cast<int>(class_names.size()); }
};

// Decoded images (train and test together) above this are decoded when they are read, not when the set is opened.
constexpr int64_t kBytesInMemoryMax = int64_t{2} << 30;

// Opens a data set by its name, KIND:DIR or KIND@SIDE:DIR with a kind of DatasetKinds(); SIDE is the images' height
// where the kind allows a choice. `seed` drives drawing (glyphs) and every random split. Errors name the file (and the
// line), the field, the value and what is allowed.
// Threads: safe. INVALID_ARGUMENT for an unknown name (lists the known ones), a class with one image, a set with no
// test items; NOT_FOUND for a missing file; DATA_LOSS for a truncated or corrupt one.
absl::StatusOr<Dataset> OpenDataset(std::string_view name, uint64_t seed,
                                    int64_t bytes_in_memory_max = kBytesInMemoryMax);

// The names that OpenDataset knows, with a line of help each ("cifar100:DIR", "official binary layout ...").
std::vector<std::pair<std::string, std::string>> DatasetKinds();

// Encodes height x width x channels uint8 (channels last, 1 or 3) as a PNG file, for reports, payloads and raw-input
// queries; DecodeImage of models/image.h gives the same pixels back. INVALID_ARGUMENT for sizes that a PNG cannot have.
// Threads: safe.
absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int height, int width, int channels);
// The same of one image of a set.
absl::StatusOr<std::string> EncodePng(const ImageSet& set, int64_t i);

}  // namespace lightcone
