// Labelled images of every data set: in memory, or decoded when read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dcheck.h"

namespace lightcone {

class ImageSource;  // defined in trainer/data/image_source.h

// Images of one size: N x height x width x channels, uint8, row major, channels last (1 or 3). A set that is too large
// for memory has a source in place of pixels, and Read decodes the image.
struct ImageSet {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // pixels; empty for a set with a source
  std::vector<int32_t> labels;  // class of each image, 0 .. classes-1
  std::shared_ptr<const ImageSource> source = nullptr;
  std::vector<int64_t> source_rows = {};  // position of each image in the source

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t bytes_per_image() const { return int64_t{height} * width * channels; }
  bool in_memory() const { return source == nullptr; }
  // REQUIRES: in_memory().
  const uint8_t* image(int64_t i) const {
    LC_DCHECK(in_memory());
    return pixels.data() + i * bytes_per_image();
  }

  // Writes bytes_per_image() bytes of image `i`, from memory or the source. Errors name the file. Threads: safe.
  absl::Status Read(int64_t i, uint8_t* out) const;
};

// Per-channel statistics of the training images scaled to [0, 1]; used to normalise network inputs.
struct Normalisation {
  std::vector<float> mean, stddev;  // mean and deviation by channel
};

// The random changes that keep an image's class.
enum class AugmentKind {
  kNone,
  kPhoto,    // random crop with padding and horizontal flip, as for CIFAR
  kDrawing,  // small shift, rotation and scale without a flip, for characters and digits
};

// The comparison of test images, for data sets whose authors want another one than "each with all others".
struct TestProtocol {
  std::vector<int64_t> queries, gallery;  // rows of the test set
  // Camera of each test image, or empty. A query's ranking leaves out gallery items of the query's class *and* camera.
  std::vector<int32_t> cameras;
};

struct Dataset {
  std::string name;                      // name by the user, for example "cifar100:/data/cifar"
  std::vector<std::string> class_names;  // names by class
  ImageSet train, test;
  Normalisation normalisation;
  AugmentKind augment = AugmentKind::kNone;
  std::string notes;  // changes of the files' images, such as "resized from 105 x 105 to 32 x 32"
  std::optional<TestProtocol> protocol = std::nullopt;  // protocol; nullopt makes the test set queries and gallery

  int classes() const { return static_cast<int>(class_names.size()); }
};

// Size of decoded train and test images above which images are decoded when read, not when the set is opened.
constexpr int64_t kBytesInMemoryMax = int64_t{2} << 30;

// Opens a data set by its name, KIND:DIR or KIND@SIDE:DIR with a kind of DatasetKinds(). SIDE is the images' height
// where the kind allows a choice. `seed` drives drawing (glyphs) and every random split. Errors name file, line, field,
// value and allowed values. INVALID_ARGUMENT for an unknown name (lists the known ones), a class with one image, a set
// without test items; NOT_FOUND for a missing file; DATA_LOSS for a truncated or corrupt one. Threads: safe.
absl::StatusOr<Dataset> OpenDataset(std::string_view name, uint64_t seed,
                                    int64_t bytes_in_memory_max = kBytesInMemoryMax);

// The names for OpenDataset, each with a line of help ("cifar100:DIR", "official binary layout ...").
std::vector<std::pair<std::string, std::string>> DatasetKinds();

// A PNG file of height x width x channels uint8 (channels last, 1 or 3), for reports, payloads and raw-input queries.
// DecodeImage of models/image.h returns the same pixels. INVALID_ARGUMENT for sizes that a PNG cannot have. Threads:
// safe.
absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int height, int width, int channels);
// The PNG file of one image of a set.
absl::StatusOr<std::string> EncodePng(const ImageSet& set, int64_t i);

}  // namespace lightcone
