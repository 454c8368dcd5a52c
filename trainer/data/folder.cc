#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "models/image.h"
#include "trainer/data/formats.h"
#include "trainer/data/parallel.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr int kSideMax = 64, kSideMin = 16;

struct File {
  std::string path, class_name;
};

std::string LowerExtension(const fs::path& path) {
  std::string text = path.extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The entries of a folder in the order of their names, without hidden ones.
absl::StatusOr<std::vector<fs::path>> List(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string()[0] != '.') entries.push_back(it->path());
  }
  if (error) return ErrnoStatus(error.value(), "list", folder.string());
  std::sort(entries.begin(), entries.end());
  return entries;
}

absl::Status ListClass(const fs::path& folder, std::vector<File>* files) {
  LC_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, List(folder));
  for (const fs::path& entry : entries) {
    const std::string extension = LowerExtension(entry);
    std::error_code ignored;
    if (extension == ".txt") continue;
    const bool image = extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".webp";
    if (!image || fs::is_directory(entry, ignored)) {
      return InvalidField("image file", StrCat("'", entry.string(), "'"),
                          ".png, .jpg, .jpeg or .webp (hidden files and .txt are ignored)");
    }
    files->push_back({entry.string(), folder.filename().string()});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<File>> ListClasses(const fs::path& folder) {
  LC_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, List(folder));
  std::vector<File> files;
  std::error_code ignored;
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry, ignored)) {
      LC_RETURN_IF_ERROR(ListClass(entry, &files));
    } else if (LowerExtension(entry) != ".txt") {
      return InvalidField("entry of a data folder", StrCat("'", entry.string(), "'"), "one folder for each class");
    }
  }
  return files;
}

bool HoldsFolders(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->is_directory(error)) return true;
  }
  return false;
}

// A decoded file, shrunk at once when it is large, so that a folder of photographs fits into memory.
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

absl::StatusOr<std::vector<Loaded>> LoadAll(const std::vector<File>& files) {
  std::vector<absl::StatusOr<Loaded>> results(files.size(), absl::StatusOr<Loaded>(Loaded{}));
  ParallelFor(static_cast<int64_t>(files.size()), [&](int64_t i) { results[i] = Load(files[i].path); });
  std::vector<Loaded> images;
  images.reserve(files.size());
  for (absl::StatusOr<Loaded>& result : results) {
    if (!result.ok()) return result.status();  // the first by name, whichever thread failed first
    images.push_back(*std::move(result));
  }
  return images;
}

struct Target {
  int height = 0, width = 0, channels = 1;
  bool resized = false;
};

// Colour if any file has colour. The common size when there is one of at most 64; else a square of the median shorter
// side, a multiple of 4 in 16 .. 64.
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

RawImages Assemble(const std::vector<Loaded>& loaded, const std::vector<File>& files,
                   const std::map<std::string, int64_t>& ids, const Target& target) {
  RawImages out{target.height, target.width, target.channels, {}, {}};
  const int64_t bytes = int64_t{target.height} * target.width * target.channels;
  out.pixels.resize(static_cast<size_t>(bytes) * loaded.size());
  ParallelFor(static_cast<int64_t>(loaded.size()), [&](int64_t i) {
    const Image image = ResizeImage(loaded[i].image, target.height, target.width, target.channels);
    std::memcpy(out.pixels.data() + i * bytes, image.pixels.data(), static_cast<size_t>(bytes));
  });
  for (const File& file : files) out.labels.push_back(ids.at(file.class_name));
  return out;
}

}  // namespace

absl::StatusOr<RawDataset> OpenImageFolders(const std::string& folder) {
  std::error_code ignored;
  const bool divided = HoldsFolders(folder + "/train") && fs::is_directory(folder + "/test", ignored);
  LC_ASSIGN_OR_RETURN(const std::vector<File> train_files, ListClasses(divided ? folder + "/train" : folder));
  if (train_files.empty()) return InvalidField("training images", StrCat("0 in '", folder, "'"), "one folder a class");
  std::vector<File> test_files;
  if (divided) {
    LC_ASSIGN_OR_RETURN(test_files, ListClasses(folder + "/test"));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<Loaded> train, LoadAll(train_files));
  LC_ASSIGN_OR_RETURN(const std::vector<Loaded> test, LoadAll(test_files));
  std::map<std::string, int64_t> ids;
  for (const std::vector<File>* part : {&train_files, &std::as_const(test_files)}) {
    for (const File& file : *part) ids.emplace(file.class_name, 0);
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
