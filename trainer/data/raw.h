// What a file format gives before it becomes a Dataset: images of one size with the labels that the files hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lightcone {

struct RawImages {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // N x height x width x channels
  std::vector<int64_t> labels;  // any numbers
};

struct RawDataset {
  RawImages train;
  std::optional<RawImages> test;               // without it, FinishDataset splits `train`
  std::map<int64_t, std::string> class_names;  // of a label; a label that is not here is its own name
  std::string notes;
};

// Images of which a side is longer than `side_max` are shrunk so that their longer side is `side`; those smaller than
// 16 are enlarged by the smallest whole factor that reaches 16 (networks halve a picture several times). Adds to notes.
void FitImageSize(int side_max, int side, RawDataset* raw);

// Maps labels to dense class ids (training labels in ascending order, then labels that only the test set has), splits
// where there is no test set (a quarter of each class, at least 1, at least 2 of four or more, drawn from `seed`;
// the rest trains), and measures the normalisation. Grey images are augmented as drawings, others as photos.
// INVALID_ARGUMENT: no images, no test items, sizes that differ, a class with one image.
absl::StatusOr<Dataset> FinishDataset(std::string_view name, RawDataset raw, uint64_t seed);

// Dense class ids of the labels of a data set: training labels in ascending order, then those that only the test has.
struct ClassNumbers {
  std::map<int64_t, int32_t> ids;  // of a label
  std::vector<std::string> names;  // of an id
};
ClassNumbers NumberClasses(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                           const std::map<int64_t, std::string>& names);

// INVALID_ARGUMENT names the first class with a single image in train and test together.
absl::Status CheckNoSingleImage(const std::vector<int64_t>& train, const std::vector<int64_t>& test,
                                const ClassNumbers& numbers);

// Positions of `labels` that train and that test, each ascending: FinishDataset's split. REQUIRES: 2 of each label.
struct SplitRows {
  std::vector<int64_t> train, test;
};
SplitRows SplitPerClass(const std::vector<int64_t>& labels, uint64_t seed);

// Mean and deviation per channel of pixels / 255. REQUIRES: images.in_memory(). A channel that never varies gets
// deviation 1.
Normalisation MeasureNormalisation(const ImageSet& images);

}  // namespace lightcone
