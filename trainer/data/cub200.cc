#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"
#include "trainer/data/text_lines.h"

namespace lightcone {
namespace {

constexpr int64_t kIdMax = 100'000'000;
constexpr int64_t kListBytesMax = 1 << 28;

// A list of "image_id value" with values low .. high, ordered by `order`: positions of the image ids.
absl::StatusOr<std::vector<int64_t>> ParseValues(std::string_view text, std::string_view what, std::string_view name,
                                                 int64_t low, int64_t high, const std::map<int64_t, size_t>& order) {
  std::vector<int64_t> values(order.size(), low - 1);
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 2, [&](const TextLine& line) -> absl::Status {
    LC_ASSIGN_OR_RETURN(const int64_t id, line.Integer(0, "image_id", 1, kIdMax));
    LC_ASSIGN_OR_RETURN(const int64_t value, line.Integer(1, name, low, high));
    const auto position = order.find(id);
    if (position == order.end()) return line.Error("image_id", line.fields[0], "the ids of images.txt");
    if (values[position->second] >= low) return line.Error("image_id", line.fields[0], "each image once");
    values[position->second] = value;
    return absl::OkStatus();
  }));
  for (const auto& [id, position] : order) {
    if (values[position] < low) return DataLoss(StrCat(what, ": has no line for image_id ", id, " of images.txt"));
  }
  return values;
}

absl::StatusOr<std::map<int64_t, std::string>> ParseClasses(std::string_view text, std::string_view what) {
  std::map<int64_t, std::string> names;
  LC_RETURN_IF_ERROR(ForEachLine(text, what, ' ', 2, [&](const TextLine& line) -> absl::Status {
    const int64_t next = static_cast<int64_t>(names.size()) + 1;
    LC_ASSIGN_OR_RETURN(const int64_t id, line.Integer(0, "class_id", next, next));
    names.emplace(id, line.fields[1]);
    return absl::OkStatus();
  }));
  if (names.size() >= 2) return names;
  return InvalidField(StrCat(what, ": classes"), StrCat(names.size()), "at least 2");
}

}  // namespace

absl::StatusOr<CubLists> ParseCub200(const CubTexts& texts, std::string_view folder) {
  CubLists lists;
  LC_ASSIGN_OR_RETURN(lists.class_names, ParseClasses(texts.classes, StrCat(folder, "/classes.txt")));
  std::map<int64_t, size_t> order;
  const std::string images = StrCat(folder, "/images.txt");
  LC_RETURN_IF_ERROR(ForEachLine(texts.images, images, ' ', 2, [&](const TextLine& line) -> absl::Status {
    LC_ASSIGN_OR_RETURN(const int64_t id, line.Integer(0, "image_id", 1, kIdMax));
    LC_ASSIGN_OR_RETURN(const std::string path, line.Path(1, "image_name"));
    if (!order.emplace(id, order.size()).second) return line.Error("image_id", line.fields[0], "each image once");
    lists.images.push_back({StrCat("images/", path), 0});
    return absl::OkStatus();
  }));
  const int64_t classes = static_cast<int64_t>(lists.class_names.size());
  LC_ASSIGN_OR_RETURN(
      const std::vector<int64_t> labels,
      ParseValues(texts.labels, StrCat(folder, "/image_class_labels.txt"), "class_id", 1, classes, order));
  for (size_t i = 0; i < labels.size(); ++i) lists.images[i].label = labels[i];
  if (!texts.split.has_value()) return lists;
  LC_ASSIGN_OR_RETURN(
      const std::vector<int64_t> trains,
      ParseValues(*texts.split, StrCat(folder, "/train_test_split.txt"), "is_training_image", 0, 1, order));
  lists.trains.assign(trains.begin(), trains.end());
  return lists;
}

absl::StatusOr<ListedDataset> OpenCub200(const std::string& folder, ClassSplit split) {
  const std::string home = UnpackedFolder(folder, "CUB_200_2011");
  LC_ASSIGN_OR_RETURN(const std::string images, ReadFile(home + "/images.txt", kListBytesMax));
  LC_ASSIGN_OR_RETURN(const std::string labels, ReadFile(home + "/image_class_labels.txt", kListBytesMax));
  LC_ASSIGN_OR_RETURN(const std::string classes, ReadFile(home + "/classes.txt", kListBytesMax));
  CubTexts texts{images, labels, classes, std::nullopt};
  std::string trains;
  if (split == ClassSplit::kByAuthors) {
    LC_ASSIGN_OR_RETURN(trains, ReadFile(home + "/train_test_split.txt", kListBytesMax));
    texts.split = trains;
  }
  LC_ASSIGN_OR_RETURN(CubLists lists, ParseCub200(texts, home));
  ListedDataset listed;
  const int64_t classes_first = static_cast<int64_t>(lists.class_names.size()) / 2;
  listed.class_names = std::move(lists.class_names);
  listed.test.emplace();
  std::vector<std::string> paths;
  for (size_t i = 0; i < lists.images.size(); ++i) {
    LabelledPath& image = lists.images[i];
    const bool train = split == ClassSplit::kByClass ? image.label <= classes_first : bool{lists.trains[i]};
    (train ? listed.train : *listed.test).AddPath(std::move(image.path), image.label, &paths);
  }
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(home, std::move(paths)));
  return listed;
}

}  // namespace lightcone
