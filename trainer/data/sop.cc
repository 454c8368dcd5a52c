#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr int64_t kIdMax = 100'000'000;

}  // namespace

absl::StatusOr<std::vector<LabelledPath>> ParseSop(std::string_view text, std::string_view what) {
  std::vector<LabelledPath> images;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 4, [&](const TextLine& line) -> absl::Status {
    if (line.number == 1) {  // names of the columns
      if (line.fields[1] == "class_id" && line.fields[3] == "path") return absl::OkStatus();
      return line.Error("header", line.fields[0], "image_id class_id super_class_id path");
    }
    LC_ASSIGN_OR_RETURN(const int64_t label, line.Integer(1, "class_id", 1, kIdMax));
    LC_ASSIGN_OR_RETURN(std::string path, line.Path(3, "path"));
    images.push_back({std::move(path), label});
    return absl::OkStatus();
  }));
  return images;
}

absl::StatusOr<ListedDataset> OpenSop(const std::string& folder) {
  const std::string home = UnpackedFolder(folder, "Stanford_Online_Products");
  ListedDataset listed;
  std::vector<std::string> paths;
  for (const bool train : {true, false}) {
    const std::string list = StrCat(home, train ? "/Ebay_train.txt" : "/Ebay_test.txt");
    LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(list, 1 << 28));
    LC_ASSIGN_OR_RETURN(std::vector<LabelledPath> images, ParseSop(text, list));
    ListedImages& part = train ? listed.train : listed.test.emplace();
    for (LabelledPath& image : images) {
      part.AddPath(std::move(image.path), image.label, &paths);
    }
  }
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(home, std::move(paths)));
  return listed;
}

}  // namespace lightcone
