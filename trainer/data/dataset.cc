#include "trainer/data/dataset.h"

#include <png.h>

#include "base/status.h"
#include "trainer/data/formats.h"
#include "trainer/data/glyphs.h"

namespace lightcone {
namespace {

constexpr int kPngSideMax = 16384;

std::string KnownNames() {
  std::string text;
  for (const auto& [name, help] : DatasetKinds()) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
}

// The part before the first ':' chooses the format, the rest is its folder (which may itself hold a ':').
absl::StatusOr<RawDataset> ReadFormat(std::string_view kind, const std::string& path, std::string_view name) {
  if (kind == "cifar100") return OpenCifar100(path);
  if (kind == "idx") return OpenIdx(path);
  if (kind == "npy") return OpenNpySet(path);
  if (kind == "folder") return OpenImageFolders(path);
  return InvalidField("data set", StrCat("'", name, "'"), KnownNames());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DatasetKinds() {
  return {
      {"glyphs", "characters drawn from the installed fonts; needs no files"},
      {"cifar100:DIR", "CIFAR-100, official binary layout: train.bin, test.bin"},
      {"idx:DIR", "the MNIST family's four files: train-images-idx3-ubyte ... t10k-labels-idx1-ubyte"},
      {"npy:DIR", "images.npy uint8 [N,H,W] or [N,H,W,C], labels.npy integer [N]; test_images.npy, test_labels.npy"},
      {"folder:DIR", "one folder a class with PNG, JPEG or WebP files; or train/ and test/ of such folders"}};
}

absl::StatusOr<Dataset> OpenDataset(std::string_view name, uint64_t seed) {
  if (name == "glyphs") return DrawGlyphs({}, seed);
  const size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  const std::string path(colon == std::string_view::npos ? "" : name.substr(colon + 1));
  if (path.empty() || kind == "glyphs") return InvalidField("data set", StrCat("'", name, "'"), KnownNames());
  LC_ASSIGN_OR_RETURN(RawDataset raw, ReadFormat(kind, path, name));
  absl::StatusOr<Dataset> dataset = FinishDataset(name, std::move(raw), seed);
  if (!dataset.ok()) return Annotate(dataset.status(), name);
  return dataset;
}

absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int height, int width, int channels) {
  if (height < 1 || width < 1 || height > kPngSideMax || width > kPngSideMax) {
    return InvalidField("image size", StrCat(height, " x ", width), StrCat("1 .. ", kPngSideMax, " a side"));
  }
  if (channels != 1 && channels != 3) return InvalidField("channels", StrCat(channels), "1 or 3");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr)) {
    return Internal(StrCat("PNG: ", image.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace lightcone
