// Any bytes as the files of a data set's folder, through the function that opens the whole folder: what a list, an
// annotation or an index says about the other files is never trusted. The first byte chooses the kind, the second says
// where two files divide.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/scratch_folder.h"
#include "trainer/data/face_lists.h"
#include "trainer/data/formats.h"
#include "trainer/data/paper_sets.h"

namespace {

namespace fs = std::filesystem;
using namespace lightcone;  // NOLINT: a file of one purpose

void Write(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  if (!(std::ofstream(path, std::ios::binary) << bytes)) std::abort();
}

void Check(const ListedDataset& set, const ListedImages& images) {
  if (images.rows.size() != images.labels.size()) std::abort();
  for (const int64_t row : images.rows) {
    if (row < 0 || row >= set.source->size()) std::abort();
  }
}

void Check(const absl::StatusOr<ListedDataset>& set) {
  if (!set.ok()) return;
  Check(*set, set->train);
  if (set->test.has_value()) Check(*set, *set->test);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto scratch = ScratchFolder::Make("fuzz").value();
  if (size < 2 || size > 1 << 16) return 0;
  const std::string folder = scratch->path() + "/set";
  fs::remove_all(folder);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t middle = bytes.size() * data[1] / 256;
  const std::string_view first = bytes.substr(0, middle), second = bytes.substr(middle);
  switch (data[0] % 5) {
    case 0: {
      const std::string row(3074, '\0');
      Write(folder + "/train.bin", row);
      Write(folder + "/test.bin", row);
      Write(folder + "/fine_label_names.txt", bytes);
      const auto set = OpenCifar100(folder);
      if (set.ok() && set->class_names.size() != 100) std::abort();
      break;
    }
    case 1:
      Write(folder + "/tiny-imagenet-200/wnids.txt", first);
      Write(folder + "/tiny-imagenet-200/val/val_annotations.txt", second);
      Write(folder + "/tiny-imagenet-200/val/images/a.JPEG", "x");
      Write(folder + "/tiny-imagenet-200/train/n01/images/b.JPEG", "x");
      Check(OpenTinyImageNet(folder));
      break;
    case 2:
      Write(folder + "/cars_annos.mat", bytes);
      Write(folder + "/car_ims/1.jpg", "x");
      Check(OpenCars196(folder, ClassSplit::kByClass));
      Check(OpenCars196(folder, ClassSplit::kByAuthors));
      break;
    case 3:
      Write(folder + "/train.idx", first);
      Write(folder + "/train.rec", second);
      Check(OpenMs1m(folder));
      break;
    default: {
      Write(folder + "/images.npy", first);
      Write(folder + "/labels.npy", second);
      const auto set = OpenNpySet(folder);
      if (!set.ok()) break;
      const RawImages& images = set->train;
      const int64_t image_bytes = int64_t{images.height} * images.width * images.channels;
      if (static_cast<int64_t>(images.pixels.size()) != image_bytes * static_cast<int64_t>(images.labels.size()))
        std::abort();
    }
  }
  return 0;
}
