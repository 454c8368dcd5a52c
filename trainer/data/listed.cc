#include "trainer/data/listed.h"

#include <utility>

#include "base/status.h"
#include "trainer/data/raw.h"

namespace lightcone {
namespace {

constexpr int kChannels = 3;

ImageSet Take(const ListedDataset& listed, const ListedImages& images, const ClassNumbers& numbers) {
  ImageSet set{listed.height, listed.width, kChannels, {}, {}, listed.source};
  set.source_rows = images.rows;
  set.labels.reserve(images.labels.size());
  for (const int64_t label : images.labels) set.labels.push_back(numbers.ids.at(label));
  return set;
}

ListedImages Pick(const ListedImages& images, const std::vector<int64_t>& positions) {
  ListedImages out;
  for (const int64_t i : positions) out.Add(images.rows[static_cast<size_t>(i)], images.labels[static_cast<size_t>(i)]);
  return out;
}

}  // namespace

absl::StatusOr<Dataset> FinishListed(std::string_view name, ListedDataset listed, uint64_t seed,
                                     int64_t bytes_in_memory_max) {
  if (listed.train.labels.empty()) return InvalidField("training images", "0", "at least 2 of each class");
  if (listed.test.has_value() && listed.test->labels.empty()) return InvalidField("test items", "0", "at least 1");
  const std::vector<int64_t> none;
  const std::vector<int64_t>& test_labels = listed.test ? listed.test->labels : none;
  const ClassNumbers numbers = NumberClasses(listed.train.labels, test_labels, listed.class_names);
  if (!listed.single_images) LC_RETURN_IF_ERROR(CheckNoSingleImage(listed.train.labels, test_labels, numbers));
  if (!listed.test.has_value()) {
    const SplitRows rows = SplitPerClass(listed.train.labels, seed);
    listed.test = Pick(listed.train, rows.test);
    listed.train = Pick(listed.train, rows.train);
    AddNote("no test files: a quarter of each class was set aside", &listed.notes);
  }
  Dataset out;
  out.name = std::string(name);
  out.class_names = numbers.names;
  out.train = Take(listed, listed.train, numbers);
  out.test = Take(listed, *listed.test, numbers);
  out.protocol = std::move(listed.protocol);
  out.augment = AugmentKind::kPhoto;
  AddNote(StrCat("images cropped to the middle and resized to ", listed.height, " x ", listed.width), &listed.notes);
  if ((out.train.size() + out.test.size()) * out.train.bytes_per_image() <= bytes_in_memory_max) {
    LC_RETURN_IF_ERROR(DecodeIntoMemory(&out.train));
    LC_RETURN_IF_ERROR(DecodeIntoMemory(&out.test));
    out.normalisation = MeasureNormalisation(out.train);
  } else {
    LC_ASSIGN_OR_RETURN(out.normalisation, SampleNormalisation(out.train));
    AddNote("too large for memory: decoded when read", &listed.notes);
  }
  out.notes = std::move(listed.notes);
  return out;
}

}  // namespace lightcone
