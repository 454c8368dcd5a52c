#include "trainer/data/image_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "trainer/data/parallel.h"
#include "trainer/data/raw.h"

namespace lightcone {
namespace {

constexpr int64_t kFileBytesMax = int64_t{1} << 28;
constexpr int64_t kSampleImages = 2000, kChecksumImages = 1024;

std::string_view BytesOf(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

class ImageFiles : public ImageSource {
 public:
  ImageFiles(std::string root, std::vector<std::string> paths, std::vector<uint64_t> sizes)
      : root_(std::move(root)), paths_(std::move(paths)), sizes_(std::move(sizes)) {}

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  absl::StatusOr<std::string> Bytes(int64_t i) const override {
    LC_DCHECK(0 <= i && i < size());
    return ReadFile(Name(i), kFileBytesMax);
  }
  std::string Name(int64_t i) const override { return StrCat(root_, "/", paths_[static_cast<size_t>(i)]); }
  uint32_t Checksum() const override {
    std::call_once(summed_, [this] {
      checksum_ = Crc32c(BytesOf(sizes_));
      for (const std::string& path : paths_) checksum_ = Crc32c(path, checksum_);
      checksum_ = SampleChecksum(*this, checksum_);
    });
    return checksum_;
  }

 private:
  const std::string root_;
  const std::vector<std::string> paths_;
  const std::vector<uint64_t> sizes_;
  mutable std::once_flag summed_;
  mutable uint32_t checksum_ = 0;
};

}  // namespace

uint32_t SampleChecksum(const ImageSource& source, uint32_t crc32c) {
  const int64_t take = std::min(kChecksumImages, source.size());
  std::vector<uint32_t> sums(static_cast<size_t>(take), 0);
  ParallelFor(take, [&](int64_t i) {
    const absl::StatusOr<std::string> bytes = source.Bytes(i * source.size() / take);
    if (bytes.ok()) sums[static_cast<size_t>(i)] = Crc32c(*bytes);
  });
  return Crc32c(BytesOf(sums), crc32c);
}

absl::StatusOr<std::shared_ptr<const ImageSource>> OpenImageFiles(const std::string& root,
                                                                  std::vector<std::string> relative_paths) {
  std::vector<uint64_t> sizes(relative_paths.size());
  std::vector<int> errors(relative_paths.size(), 0);
  ParallelFor(static_cast<int64_t>(sizes.size()), [&](int64_t i) {
    std::error_code error;
    sizes[i] = std::filesystem::file_size(StrCat(root, "/", relative_paths[i]), error);
    errors[i] = error.value();
  });
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] != 0) return ErrnoStatus(errors[i], "open image", StrCat(root, "/", relative_paths[i]));
  }
  return std::shared_ptr<const ImageSource>(new ImageFiles(root, std::move(relative_paths), std::move(sizes)));
}

Image CropAndResize(const Image& image, int height, int width, int channels) {
  // The largest part of the wanted ratio: int64 products, compared crosswise.
  const int64_t tall = int64_t{image.height} * width, broad = int64_t{image.width} * height;
  if (tall == broad) return ResizeImage(image, height, width, channels);
  Image part{image.height, image.width, image.channels, {}};
  if (broad > tall) {
    part.width = static_cast<int>(std::max<int64_t>(1, tall / height));
  } else {
    part.height = static_cast<int>(std::max<int64_t>(1, broad / width));
  }
  const int64_t top = (image.height - part.height) / 2, left = (image.width - part.width) / 2;
  const int64_t from = int64_t{image.width} * image.channels, to = int64_t{part.width} * part.channels;
  part.pixels.resize(static_cast<size_t>(to * part.height));
  for (int64_t y = 0; y < part.height; ++y) {
    std::memcpy(part.pixels.data() + y * to, image.pixels.data() + (top + y) * from + left * image.channels,
                static_cast<size_t>(to));
  }
  return ResizeImage(part, height, width, channels);
}

absl::Status ImageSet::Read(int64_t i, uint8_t* out) const {
  if (in_memory()) {
    std::memcpy(out, image(i), static_cast<size_t>(bytes_per_image()));
    return absl::OkStatus();
  }
  const int64_t row = source_rows[static_cast<size_t>(i)];
  LC_ASSIGN_OR_RETURN(const std::string bytes, source->Bytes(row));
  ImageLimits limits;
  limits.bytes_max = kFileBytesMax;
  const absl::StatusOr<Image> decoded = DecodeImage(bytes, limits);
  if (!decoded.ok()) return Annotate(decoded.status(), source->Name(row));
  const Image fitted = CropAndResize(*decoded, height, width, channels);
  std::memcpy(out, fitted.pixels.data(), static_cast<size_t>(bytes_per_image()));
  return absl::OkStatus();
}

absl::Status DecodeIntoMemory(ImageSet* set) {
  if (set->in_memory()) return absl::OkStatus();
  const int64_t bytes = set->bytes_per_image();
  std::vector<uint8_t> pixels(static_cast<size_t>(bytes * set->size()));
  std::vector<absl::Status> results(static_cast<size_t>(set->size()));
  ParallelFor(set->size(), [&](int64_t i) { results[i] = set->Read(i, pixels.data() + i * bytes); });
  for (const absl::Status& result : results) LC_RETURN_IF_ERROR(result);
  set->pixels = std::move(pixels);
  set->source = nullptr;
  set->source_rows.clear();
  return absl::OkStatus();
}

uint32_t PixelChecksum(const ImageSet& set) {
  if (set.in_memory()) return Crc32c(BytesOf(set.pixels));
  const std::vector<int64_t> shape = {set.height, set.width, set.channels};
  return Crc32c(BytesOf(set.source_rows), Crc32c(BytesOf(shape), set.source->Checksum()));
}

absl::StatusOr<Normalisation> SampleNormalisation(const ImageSet& set) {
  ImageSet sample{set.height, set.width, set.channels, {}, {}, set.source};
  const int64_t take = std::min(kSampleImages, set.size());
  for (int64_t i = 0; i < take; ++i) {
    const int64_t row = i * set.size() / take;
    sample.labels.push_back(set.labels[static_cast<size_t>(row)]);
    sample.source_rows.push_back(set.source_rows[static_cast<size_t>(row)]);
  }
  LC_RETURN_IF_ERROR(DecodeIntoMemory(&sample));
  return MeasureNormalisation(sample);
}

}  // namespace lightcone
