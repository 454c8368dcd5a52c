// Encoded images (JPEG, PNG, WebP) that are decoded one at a time, for an ImageSet that is too large for memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/image.h"
#include "trainer/data/dataset.h"

namespace lightcone {

// Threads: all const methods are safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t size() const = 0;
  // The encoded file of image `i`. Errors name the file. REQUIRES: 0 <= i < size().
  virtual absl::StatusOr<std::string> Bytes(int64_t i) const = 0;
  // The place of image `i`, for messages.
  virtual std::string Name(int64_t i) const = 0;
  // Checksum of names, sizes and the bytes of some images, independent of the folder's place.
  virtual uint32_t Checksum() const = 0;
};

// `crc32c` continued over the bytes of at most 1,024 images, spread evenly over the source, so that another image of
// the same size shows. An unreadable image is left out.
uint32_t SampleChecksum(const ImageSource& source, uint32_t crc32c);

// A source of files below a folder. NOT_FOUND names the first missing path.
absl::StatusOr<std::shared_ptr<const ImageSource>> OpenImageFiles(const std::string& root,
                                                                  std::vector<std::string> relative_paths);

// The centre crop of `image` with the aspect ratio of height x width, resized to that size. Equal ratios need no crop.
// REQUIRES: as ResizeImage.
Image CropAndResize(const Image& image, int height, int width, int channels);

// Decodes every image of a set that has a source and drops the source. Errors name the first file in order.
absl::Status DecodeIntoMemory(ImageSet* set);

// CRC-32C of a set's pixels in memory, else of its source and rows.
uint32_t PixelChecksum(const ImageSet& set);

// MeasureNormalisation from at most 2,000 images spread evenly over a set that is not in memory.
absl::StatusOr<Normalisation> SampleNormalisation(const ImageSet& set);

}  // namespace lightcone
