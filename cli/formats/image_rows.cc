// Pictures as rows: a folder of image files, in folders by class.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/status.h"
#include "base/utf8.h"
#include "cli/formats/rows.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kImageBytesMax = int64_t{1} << 30;

struct Picture {
  std::string file;        // path below the folder: "cat/1.png"
  std::string class_name;  // empty: in no folder of its own
};

bool IsImage(const fs::path& path) {
  static const std::set<std::string> kEndings = {".png", ".jpg", ".jpeg", ".webp"};
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return kEndings.contains(ending);
}

class ImageRows final : public RowReader {
 public:
  ImageRows(std::string folder, std::vector<Picture> pictures)
      : folder_(std::move(folder)), pictures_(std::move(pictures)) {}

  absl::StatusOr<bool> Next(Row* row) override {
    if (next_ == pictures_.size()) return false;
    const Picture& picture = pictures_[next_++];
    *row = Row();
    LC_ASSIGN_OR_RETURN(row->image, ReadFile(StrCat(folder_, "/", picture.file), kImageBytesMax));
    row->id.emplace().set_name(picture.file);
    nlohmann::ordered_json payload = {{"file", picture.file}};
    if (!picture.class_name.empty()) payload["class"] = picture.class_name;
    row->payload_json = payload.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return true;
  }
  int64_t rows() const override { return static_cast<int64_t>(pictures_.size()); }
  int64_t bytes_read() const override { return static_cast<int64_t>(next_); }
  int64_t bytes() const override { return rows(); }

 private:
  const std::string folder_;
  const std::vector<Picture> pictures_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> OpenImages(const std::string& folder) {
  std::vector<Picture> pictures;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file(error) || !IsImage(at->path())) continue;
    const fs::path below = at->path().lexically_relative(folder);
    if (!IsUtf8(below.generic_string())) {
      return InvalidField("name of a picture", StrCat("'", below.generic_string(), "'"), "UTF-8: it is the item's id");
    }
    pictures.push_back({below.generic_string(), below.parent_path().generic_string()});
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  if (pictures.empty())
    return InvalidField("file", StrCat("'", folder, "'"), "a folder with .png, .jpg or .webp files");
  std::sort(pictures.begin(), pictures.end(), [](const Picture& a, const Picture& b) { return a.file < b.file; });
  return std::make_unique<ImageRows>(folder, std::move(pictures));
}

}  // namespace lightcone::cli
