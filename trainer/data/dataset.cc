#include "trainer/data/dataset.h"

#include <png.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "base/status.h"
#include "trainer/data/formats.h"
#include "trainer/data/glyphs.h"
#include "trainer/data/paper_sets.h"

namespace lightcone {
namespace {

constexpr int kPngSideMax = 16384;
constexpr int kSideMin = 16, kSideMax = 512;

// The data sets that are listed before anything is decoded.
struct ListedKind {
  const char* name;
  const char* help;
  absl::StatusOr<ListedDataset> (*open)(const std::string& folder);
};

const ListedKind kListedKinds[] = {
    {"tinyimagenet", "TinyImageNet: wnids.txt, train/WNID/images, val/val_annotations.txt; 64 x 64", OpenTinyImageNet},
    {"imagenet", "ImageNet: train/WNID and val/WNID folders; 224 x 224", OpenImageNetFolders},
    {"ms1m", "MS1M as InsightFace's train.rec and train.idx; 112 x 112 (its image folders: folder@112:DIR)", OpenMs1m},
    {"market1501", "Market-1501: bounding_box_train, bounding_box_test, query; 256 x 128", OpenMarket1501},
    {"cub", "CUB-200-2011: the first half of the classes trains, the other tests; 224 x 224",
     [](const std::string& folder) { return OpenCub200(folder, ClassSplit::kByClass); }},
    {"cub-official", "CUB-200-2011, divided by train_test_split.txt; 224 x 224",
     [](const std::string& folder) { return OpenCub200(folder, ClassSplit::kByAuthors); }},
    {"cars", "Cars-196 (cars_annos.mat): the first half of the classes trains, the other tests; 224 x 224",
     [](const std::string& folder) { return OpenCars196(folder, ClassSplit::kByClass); }},
    {"cars-official", "Cars-196 (cars_annos.mat), divided by its field test; 224 x 224",
     [](const std::string& folder) { return OpenCars196(folder, ClassSplit::kByAuthors); }},
    {"sop", "Stanford Online Products: Ebay_train.txt, Ebay_test.txt; 224 x 224", OpenSop},
    {"folder", "folder:DIR with images cropped to the middle and resized to SIDE x SIDE", OpenListedFolders},
};

// The parts of KIND:DIR and KIND@SIDE:DIR. The folder may itself hold a ':'.
struct DatasetName {
  std::string_view kind;
  std::optional<int> side;
  std::string path;
};

std::string KnownNames() {
  std::string text;
  for (const auto& [name, help] : DatasetKinds()) text += StrCat(text.empty() ? "" : ", ", name);
  return text;
}

absl::StatusOr<DatasetName> ParseName(std::string_view name) {
  const size_t colon = name.find(':');
  DatasetName parts{name.substr(0, colon), std::nullopt, ""};
  if (colon != std::string_view::npos) parts.path = std::string(name.substr(colon + 1));
  const size_t at = parts.kind.find('@');
  if (at != std::string_view::npos) {
    const std::string_view text = parts.kind.substr(at + 1);
    parts.kind = parts.kind.substr(0, at);
    int side = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
    if (error != std::errc() || end != text.data() + text.size() || side < kSideMin || side > kSideMax) {
      return InvalidField("side of a data set", StrCat("'", text, "'"), StrCat(kSideMin, " .. ", kSideMax));
    }
    parts.side = side;
  }
  if (parts.path.empty()) return InvalidField("data set", StrCat("'", name, "'"), KnownNames());
  return parts;
}

absl::StatusOr<RawDataset> ReadFormat(std::string_view kind, const std::string& path, std::string_view name) {
  if (kind == "cifar100") return OpenCifar100(path);
  if (kind == "idx") return OpenIdx(path);
  if (kind == "npy") return OpenNpySet(path);
  if (kind == "folder") return OpenImageFolders(path);
  return InvalidField("data set", StrCat("'", name, "'"), KnownNames());
}

absl::StatusOr<Dataset> OpenRaw(const DatasetName& parts, std::string_view name, uint64_t seed) {
  LC_ASSIGN_OR_RETURN(RawDataset raw, ReadFormat(parts.kind, parts.path, name));
  return FinishDataset(name, std::move(raw), seed);
}

// Plain "folder" is the one kind that chooses its size from the images.
const ListedKind* FindListed(const DatasetName& parts) {
  for (const ListedKind& kind : kListedKinds) {
    if (parts.kind == kind.name && (parts.kind != "folder" || parts.side.has_value())) return &kind;
  }
  return nullptr;
}

absl::StatusOr<Dataset> OpenListed(const ListedKind& kind, const DatasetName& parts, std::string_view name,
                                   uint64_t seed, int64_t bytes_in_memory_max) {
  LC_ASSIGN_OR_RETURN(ListedDataset listed, kind.open(parts.path));
  if (parts.side.has_value()) {
    listed.width = std::max(1, *parts.side * listed.width / listed.height);
    listed.height = *parts.side;
  }
  return FinishListed(name, std::move(listed), seed, bytes_in_memory_max);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DatasetKinds() {
  std::vector<std::pair<std::string, std::string>> kinds = {
      {"glyphs", "characters drawn from the installed fonts; needs no files"},
      {"cifar100:DIR", "CIFAR-100, official binary layout: train.bin, test.bin"},
      {"idx:DIR", "the MNIST family's four files: train-images-idx3-ubyte ... t10k-labels-idx1-ubyte"},
      {"npy:DIR", "images.npy uint8 [N,H,W] or [N,H,W,C], labels.npy integer [N]; test_images.npy, test_labels.npy"},
      {"folder:DIR", "one folder a class with PNG, JPEG or WebP files; or train/ and test/ of such folders"}};
  for (const ListedKind& kind : kListedKinds) {
    kinds.emplace_back(StrCat(kind.name, std::string_view(kind.name) == "folder" ? "@SIDE:DIR" : ":DIR"), kind.help);
  }
  return kinds;
}

absl::StatusOr<Dataset> OpenDataset(std::string_view name, uint64_t seed, int64_t bytes_in_memory_max) {
  if (name == "glyphs") return DrawGlyphs({}, seed);
  LC_ASSIGN_OR_RETURN(const DatasetName parts, ParseName(name));
  const ListedKind* listed = FindListed(parts);
  if (listed == nullptr && parts.side.has_value()) {
    return InvalidField("data set", StrCat("'", name, "'"),
                        StrCat("a side only for the kinds that resize; ", KnownNames()));
  }
  absl::StatusOr<Dataset> dataset =
      listed != nullptr ? OpenListed(*listed, parts, name, seed, bytes_in_memory_max) : OpenRaw(parts, name, seed);
  if (!dataset.ok()) return Annotate(dataset.status(), name);
  return dataset;
}

absl::StatusOr<std::string> EncodePng(const ImageSet& set, int64_t i) {
  std::vector<uint8_t> pixels(static_cast<size_t>(set.bytes_per_image()));
  LC_RETURN_IF_ERROR(set.Read(i, pixels.data()));
  return EncodePng(pixels.data(), set.height, set.width, set.channels);
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
