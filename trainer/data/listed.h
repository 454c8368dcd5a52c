// Data sets of many image files: the content of a layout's folders and lists, and its way into a Dataset. Decoding
// begins once it is known whether the set fits into memory. Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/image_source.h"

namespace lightcone {

struct ListedImages {
  std::vector<int64_t> rows;    // positions in the source
  std::vector<int64_t> labels;  // label of each row, any numbers

  void Add(int64_t row, int64_t label) {
    rows.push_back(row);
    labels.push_back(label);
  }
  // Adds the image at `path`, which joins `paths`: the paths of the source.
  void AddPath(std::string path, int64_t label, std::vector<std::string>* paths) {
    Add(static_cast<int64_t>(paths->size()), label);
    paths->push_back(std::move(path));
  }
};

struct ListedDataset {
  std::shared_ptr<const ImageSource> source;
  int height = 224, width = 224;  // size to which images are cropped and resized
  ListedImages train;
  std::optional<ListedImages> test;            // test images; FinishListed splits `train` without them
  std::map<int64_t, std::string> class_names;  // names by label; a label without an entry is its own name
  std::string notes;
  std::optional<TestProtocol> protocol;  // protocol whose rows are positions in `test`
  bool single_images = false;            // whether a class may have one image
};

// Numbers the classes and splits as FinishDataset does (raw.h). Decodes all images if train and test together need at
// most `bytes_in_memory_max`. Larger sets decode when read, and 2,000 images give their normalisation.
// INVALID_ARGUMENT: no images, no test items, a class with one image.
absl::StatusOr<Dataset> FinishListed(std::string_view name, ListedDataset listed, uint64_t seed,
                                     int64_t bytes_in_memory_max);

}  // namespace lightcone
