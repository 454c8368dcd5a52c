#include <utility>

#include "base/status.h"
#include "trainer/data/image_folders.h"
#include "trainer/data/paper_sets.h"

namespace lightcone {
namespace {

std::vector<std::string> ClassNames(const std::vector<ImageFile>& train, const std::vector<ImageFile>& test) {
  std::map<std::string, int> names;
  for (const std::vector<ImageFile>* files : {&train, &test}) {
    for (const ImageFile& file : *files) names.emplace(file.class_name, 0);
  }
  std::vector<std::string> sorted;
  for (const auto& [name, unused] : names) sorted.push_back(name);
  return sorted;
}

// `test_names`: the first of them that holds folders is the test set.
absl::StatusOr<ListedDataset> OpenParts(const std::string& folder, std::initializer_list<const char*> test_names) {
  std::string test_folder;
  if (HoldsFolders(folder + "/train")) {
    for (const char* name : test_names) {
      if (test_folder.empty() && HoldsFolders(StrCat(folder, "/", name))) test_folder = name;
    }
    for (const char* name : test_names) {  // neither has any: the listing names what is wrong
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
  for (const std::string& name : ClassNames(train, test)) {
    listed.class_names.emplace(static_cast<int64_t>(labels.size()), name);
    labels.emplace(name, static_cast<int64_t>(labels.size()));
  }
  std::vector<std::string> paths;
  const auto add = [&](const std::vector<ImageFile>& files, ListedImages* images) {
    for (const ImageFile& file : files) {
      images->Add(static_cast<int64_t>(paths.size()), labels.at(file.class_name));
      paths.push_back(file.path);
    }
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
  return OpenParts(folder, {"val", "test"});  // ILSVRC's test/ holds files without labels, in one folder or in none
}

}  // namespace lightcone
