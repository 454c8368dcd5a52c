// Encoded images (JPEG, PNG, WebP) that are decoded one at a time: what an ImageSet reads that is too large for memory.
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
  // The encoded file of image `i`. Errors name it. REQUIRES: 0 <= i < size().
  virtual absl::StatusOr<std::string> Bytes(int64_t i) const = 0;
  // Where image `i` is, for messages.
  virtual std::string Name(int64_t i) const = 0;
  // Tells two sets apart by names, sizes and the bytes of some images. The same wherever the folder lies.
  virtual uint32_t Checksum() const = 0;
};

// `crc32c` continued over the bytes of at most 1,024 images spread evenly over the source (of all, where it has no
// more): another image of the same size shows. An image that cannot be read counts as none.
uint32_t SampleChecksum(const ImageSource& source, uint32_t crc32c);

// Files below a folder. NOT_FOUND names the first path that is not there.
absl::StatusOr<std::shared_ptr<const ImageSource>> OpenImageFiles(const std::string& root,
                                                                  std::vector<std::string> relative_paths);

// The middle part of `image` with the aspect ratio of height x width, resized to that (the usual centre crop of
// evaluations; nothing is cut where the ratios agree). REQUIRES: as ResizeImage.
Image CropAndResize(const Image& image, int height, int width, int channels);

// Decodes every image of a set that has a source and drops the source. Errors name the first file in order.
absl::Status DecodeIntoMemory(ImageSet* set);

// CRC-32C that tells the pixels of two sets apart: of all of them in memory, else of the source and its rows.
uint32_t PixelChecksum(const ImageSet& set);

// MeasureNormalisation from at most 2,000 images spread evenly over a set that is not in memory.
absl::StatusOr<Normalisation> SampleNormalisation(const ImageSet& set);

}  // namespace lightcone
