// The content of a file format before it becomes a Dataset: images of one size with the labels of the files. Threads:
// values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct RawImages {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // pixels, N x height x width x channels
  std::vector<int64_t> labels;  // label of each image, any numbers
};

struct RawDataset {
  RawImages train;
  std::optional<RawImages> test;               // test images; FinishDataset splits `train` without them
  std::map<int64_t, std::string> class_names;  // names by label; a label without an entry is its own name
  std::string notes;
};

// Shrinks images with a side above `side_max` until the longer side is `side`. Enlarges images smaller than 16 by the
// smallest whole factor that reaches 16, since networks halve a picture several times. Adds a note.
void FitImageSize(int side_max, int side, RawDataset* raw);

// Numbers the classes (NumberClasses), splits a set without test images (SplitPerClass) and measures the normalisation.
// Grey images are augmented as drawings, others as photos.
// INVALID_ARGUMENT: no images, no test items, sizes that differ, a class with one image.
absl::StatusOr<Dataset> FinishDataset(std::string_view name, RawDataset raw, uint64_t seed);

// Dense class ids of a data set's labels: training labels in ascending order, then labels of the test set alone.
struct ClassNumbers {
  std::map<int64_t, int32_t> ids;  // class ids by label
  std::vector<std::string> names;  // names by class id
};
ClassNumbers NumberClasses(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                           const std::map<int64_t, std::string>& names);

// Appends a note to the notes of a data set.
void AddNote(std::string_view note, std::string* notes);

// INVALID_ARGUMENT names the first class with a single image in train and test together.
absl::Status CheckNoSingleImage(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                                const ClassNumbers& numbers);

// Positions of `labels` that train and that test, each ascending. A quarter of each class tests: at least 1, and at
// least 2 of four or more, drawn from `seed`. REQUIRES: 2 of each label.
struct SplitRows {
  std::vector<int64_t> train, test;
};
SplitRows SplitPerClass(const std::vector<int64_t>& labels, uint64_t seed);

// Mean and deviation of each channel of pixels / 255. A constant channel has deviation 1. REQUIRES: images.in_memory().
Normalisation MeasureNormalisation(const ImageSet& images);

}  // namespace lightcone
