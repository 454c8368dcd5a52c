// Data sets of many image files: what a loader finds in a layout's folders and lists, and how it becomes a Dataset.
// Nothing is decoded before it is known whether the set fits into memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/image_source.h"

namespace lightcone {

struct ListedImages {
  std::vector<int64_t> rows;    // of the source
  std::vector<int64_t> labels;  // any numbers, one a row

  void Add(int64_t row, int64_t label) {
    rows.push_back(row);
    labels.push_back(label);
  }
};

struct ListedDataset {
  std::shared_ptr<const ImageSource> source;
  int height = 224, width = 224;  // every image is cropped to this ratio and resized to this size; always 3 channels
  ListedImages train;
  std::optional<ListedImages> test;            // without it, FinishListed splits `train`
  std::map<int64_t, std::string> class_names;  // of a label; a label that is not here is its own name
  std::string notes;
  std::optional<TestProtocol> protocol;  // rows are positions in `test`
  bool single_images = false;            // a class may have one image: it trains, and finds no other in a test
};

// Numbers the classes and splits as FinishDataset does (raw.h), then decodes everything if train and test together need
// at most `bytes_in_memory_max`; larger sets decode when they are read, and their normalisation is measured on 2,000
// images. INVALID_ARGUMENT: no images, no test items, a class with one image.
absl::StatusOr<Dataset> FinishListed(std::string_view name, ListedDataset listed, uint64_t seed,
                                     int64_t bytes_in_memory_max);

}  // namespace lightcone
