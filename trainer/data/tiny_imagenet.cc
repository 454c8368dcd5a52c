#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr int kSide = 64;

absl::StatusOr<std::vector<std::string>> ReadWnids(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  std::vector<std::string> wnids;
  LC_RETURN_IF_ERROR(ForEachLine(text, path, ' ', 1, [&](const TextLine& line) -> absl::Status {
    LC_ASSIGN_OR_RETURN(std::string wnid, line.Path(0, "wnid"));
    if (std::find(wnids.begin(), wnids.end(), wnid) != wnids.end()) {
      return line.Error("wnid", wnid, "each class once");
    }
    wnids.push_back(std::move(wnid));
    return absl::OkStatus();
  }));
  std::sort(wnids.begin(), wnids.end());
  return wnids;
}

absl::Status CheckTrainFolders(const std::string& folder, const std::map<std::string, int64_t>& labels) {
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListFolder(folder));
  for (const std::string& entry : entries) {
    if (labels.contains(entry)) continue;
    return InvalidField("class folder", StrCat("'", folder, "/", entry, "'"), "the classes of wnids.txt");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LabelledPath>> ParseTinyImageNetVal(std::string_view text, std::string_view what,
                                                               const std::map<std::string, int64_t>& labels) {
  std::vector<LabelledPath> images;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 2, [&](const TextLine& line) -> absl::Status {
    LC_ASSIGN_OR_RETURN(const std::string path, line.Path(0, "file"));
    const auto label = labels.find(std::string(line.fields[1]));
    if (label == labels.end()) return line.Error("wnid", line.fields[1], "the classes of wnids.txt");
    images.push_back({StrCat("val/images/", path), label->second});
    return absl::OkStatus();
  }));
  return images;
}

absl::StatusOr<ListedDataset> OpenTinyImageNet(const std::string& folder) {
  const std::string home = UnpackedFolder(folder, "tiny-imagenet-200");
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> wnids, ReadWnids(home + "/wnids.txt"));
  ListedDataset listed;
  listed.height = listed.width = kSide;
  std::map<std::string, int64_t> labels;
  std::vector<std::string> paths;
  for (const std::string& wnid : wnids) {
    const int64_t label = static_cast<int64_t>(labels.size());
    labels.emplace(wnid, label);
    listed.class_names.emplace(label, wnid);
    std::vector<ImageFile> files;
    LC_RETURN_IF_ERROR(ListImages(home, StrCat("train/", wnid, "/images"), wnid, &files));
    for (ImageFile& file : files) {
      listed.train.AddPath(std::move(file.path), label, &paths);
    }
  }
  LC_RETURN_IF_ERROR(CheckTrainFolders(home + "/train", labels));
  const std::string val = home + "/val/val_annotations.txt";
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(val, 1 << 26));
  LC_ASSIGN_OR_RETURN(std::vector<LabelledPath> images, ParseTinyImageNetVal(text, val, labels));
  listed.test.emplace();
  for (LabelledPath& image : images) {
    listed.test->AddPath(std::move(image.path), image.label, &paths);
  }
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(home, std::move(paths)));
  return listed;
}

}  // namespace lightcone
