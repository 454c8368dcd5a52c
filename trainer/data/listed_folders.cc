#include <utility>

#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"

namespace lightcone {
namespace {

// The first of `test_names` that holds folders is the test set.
absl::StatusOr<ListedDataset> OpenParts(const std::string& folder, std::initializer_list<const char*> test_names) {
  std::string test_folder;
  if (HoldsFolders(folder + "/train")) {
    for (const char* name : test_names) {
      if (test_folder.empty() && HoldsFolders(StrCat(folder, "/", name))) test_folder = name;
    }
    for (const char* name : test_names) {  // the listing reports the error where no folder is there
      if (test_folder.empty() && IsFolder(StrCat(folder, "/", name))) test_folder = name;
    }
  }
  LC_ASSIGN_OR_RETURN(const std::vector<ImageFile> train,
                      ListClassFolders(folder, HoldsFolders(folder + "/train") ? "train" : ""));
  if (train.empty()) return InvalidField("training images", StrCat("0 in '", folder, "'"), "one folder a class");
  std::vector<ImageFile> test;
  if (!test_folder.empty()) {
    LC_ASSIGN_OR_RETURN(test, ListClassFolders(folder, test_folder));
  }
  ListedDataset listed;
  std::map<std::string, int64_t> labels;
  for (const std::vector<ImageFile>* files : {&train, &std::as_const(test)}) {
    for (const ImageFile& file : *files) labels.emplace(file.class_name, 0);
  }
  for (auto& [name, label] : labels) {
    label = static_cast<int64_t>(listed.class_names.size());
    listed.class_names.emplace(label, name);
  }
  std::vector<std::string> paths;
  const auto add = [&](const std::vector<ImageFile>& files, ListedImages* images) {
    for (const ImageFile& file : files) images->AddPath(file.path, labels.at(file.class_name), &paths);
  };
  add(train, &listed.train);
  if (!test_folder.empty()) add(test, &listed.test.emplace());
  LC_ASSIGN_OR_RETURN(listed.source, OpenImageFiles(folder, std::move(paths)));
  return listed;
}

}  // namespace

absl::StatusOr<ListedDataset> OpenListedFolders(const std::string& folder) {
  return OpenParts(folder, {"test", "val"});
}

absl::StatusOr<ListedDataset> OpenImageNetFolders(const std::string& folder) {
  return OpenParts(folder, {"val", "test"});  // ILSVRC's test/ holds unlabelled files
}

}  // namespace lightcone
