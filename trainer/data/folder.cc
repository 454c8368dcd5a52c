#include <algorithm>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "models/image.h"
#include "trainer/data/formats.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/parallel.h"

namespace lightcone {
namespace {

constexpr int kSideMax = 64, kSideMin = 16;

// A decoded file. A large one is shrunk at once, so that a folder of photographs fits into memory.
struct Loaded {
  Image image;
  int side = 0;  // shorter side of the file
};

absl::StatusOr<Loaded> Load(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, int64_t{1} << 28));
  absl::StatusOr<Image> image = DecodeImage(bytes);
  if (!image.ok()) return Annotate(image.status(), path);
  const int side = std::min(image->height, image->width);
  if (std::max(image->height, image->width) <= kSideMax) return Loaded{*std::move(image), side};
  const int to = std::min(side, kSideMax);
  return Loaded{ResizeImage(*image, to, to, image->channels), side};
}

absl::StatusOr<std::vector<Loaded>> LoadAll(const std::string& folder, const std::vector<ImageFile>& files) {
  std::vector<absl::StatusOr<Loaded>> results(files.size(), absl::StatusOr<Loaded>(Loaded{}));
  ParallelFor(static_cast<int64_t>(files.size()),
              [&](int64_t i) { results[i] = Load(StrCat(folder, "/", files[i].path)); });
  std::vector<Loaded> images;
  images.reserve(files.size());
  for (absl::StatusOr<Loaded>& result : results) {
    if (!result.ok()) return result.status();  // the first error in order of names
    images.push_back(*std::move(result));
  }
  return images;
}

struct Target {
  int height = 0, width = 0, channels = 1;
  bool resized = false;
};

// Colour if any file has colour. The size is the common one up to 64, else a square of the median shorter side, a
// multiple of 4 in 16 .. 64.
Target ChooseTarget(const std::vector<Loaded>& train, const std::vector<Loaded>& test) {
  Target target{train.front().image.height, train.front().image.width, 1, false};
  std::vector<int> sides;
  bool same = true;
  for (const auto* part : {&train, &test}) {
    for (const Loaded& loaded : *part) {
      const Image& image = loaded.image;
      target.channels = std::max(target.channels, image.channels);
      same = same && image.height == target.height && image.width == target.width && loaded.side <= kSideMax;
      sides.push_back(loaded.side);
    }
  }
  if (same) return target;
  std::nth_element(sides.begin(), sides.begin() + sides.size() / 2, sides.end());
  const int side = std::clamp(sides[sides.size() / 2] / 4 * 4, kSideMin, kSideMax);
  return Target{side, side, target.channels, true};
}

RawImages Assemble(const std::vector<Loaded>& loaded, const std::vector<ImageFile>& files,
                   const std::map<std::string, int64_t>& ids, const Target& target) {
  RawImages out{target.height, target.width, target.channels, {}, {}};
  const int64_t bytes = int64_t{target.height} * target.width * target.channels;
  out.pixels.resize(static_cast<size_t>(bytes) * loaded.size());
  ParallelFor(static_cast<int64_t>(loaded.size()), [&](int64_t i) {
    const Image image = ResizeImage(loaded[i].image, target.height, target.width, target.channels);
    std::memcpy(out.pixels.data() + i * bytes, image.pixels.data(), static_cast<size_t>(bytes));
  });
  for (const ImageFile& file : files) out.labels.push_back(ids.at(file.class_name));
  return out;
}

}  // namespace

absl::StatusOr<RawDataset> OpenImageFolders(const std::string& folder) {
  const bool divided = HoldsFolders(folder + "/train") && IsFolder(folder + "/test");
  LC_ASSIGN_OR_RETURN(const std::vector<ImageFile> train_files, ListClassFolders(folder, divided ? "train" : ""));
  if (train_files.empty()) return InvalidField("training images", StrCat("0 in '", folder, "'"), "one folder a class");
  std::vector<ImageFile> test_files;
  if (divided) {
    LC_ASSIGN_OR_RETURN(test_files, ListClassFolders(folder, "test"));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<Loaded> train, LoadAll(folder, train_files));
  LC_ASSIGN_OR_RETURN(const std::vector<Loaded> test, LoadAll(folder, test_files));
  std::map<std::string, int64_t> ids;
  for (const std::vector<ImageFile>* part : {&train_files, &std::as_const(test_files)}) {
    for (const ImageFile& file : *part) ids.emplace(file.class_name, 0);
  }
  RawDataset raw;
  for (auto& [name, id] : ids) {
    id = static_cast<int64_t>(raw.class_names.size());
    raw.class_names.emplace(id, name);
  }
  const Target target = ChooseTarget(train, test);
  raw.train = Assemble(train, train_files, ids, target);
  if (divided) raw.test = Assemble(test, test_files, ids, target);
  if (target.resized) raw.notes = StrCat("images resized to ", target.height, " x ", target.width);
  FitImageSize(kSideMax, kSideMax, &raw);
  return raw;
}

}  // namespace lightcone
