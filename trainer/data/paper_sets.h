// The data sets of the papers, in their authors' layouts (docs/reference/data-sets.md). Each Open... reads folders and
// lists but decodes no image; each Parse... reads a list in memory, with `what` (its path) for messages, and never
// trusts it.
// DATA_LOSS names path:line of a damaged list; NOT_FOUND: a file is missing; INVALID_ARGUMENT: valid, but not what the
// layout holds. Threads: all are safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/listed.h"

namespace lightcone {

// An image of a list: its path below the data folder, and its label.
struct LabelledPath {
  std::string path;
  int64_t label = 0;
};

// The division of a set with a split of its own.
enum class ClassSplit {
  kByClass,    // first half of the classes trains, second half tests (Oh Song et al. 2016)
  kByAuthors,  // the authors' training and test images of all classes
};

// train/ and test/ (or val/) with one folder a class; or one folder a class alone.
absl::StatusOr<ListedDataset> OpenListedFolders(const std::string& folder);

// ImageNet as it is usually unpacked. A val/ of folders tests, whatever test/ holds.
absl::StatusOr<ListedDataset> OpenImageNetFolders(const std::string& folder);

// TinyImageNet: wnids.txt, train/WNID/images/*.JPEG, val/val_annotations.txt with val/images, which tests. Classes are
// in the order of their WNIDs. `labels` are the labels by WNID.
absl::StatusOr<ListedDataset> OpenTinyImageNet(const std::string& folder);
absl::StatusOr<std::vector<LabelledPath>> ParseTinyImageNetVal(std::string_view text, std::string_view what,
                                                               const std::map<std::string, int64_t>& labels);

// CUB-200-2011: images.txt, image_class_labels.txt, classes.txt, train_test_split.txt (by authors only), images/.
struct CubLists {
  std::vector<LabelledPath> images;
  std::vector<bool> trains;                    // authors' split; empty without that list
  std::map<int64_t, std::string> class_names;  // names of the labels 1 .. classes
};
absl::StatusOr<ListedDataset> OpenCub200(const std::string& folder, ClassSplit split);
struct CubTexts {
  std::string_view images, labels, classes;
  std::optional<std::string_view> split;
};
absl::StatusOr<CubLists> ParseCub200(const CubTexts& texts, std::string_view folder);

// Cars-196: cars_annos.mat (MATLAB 5; fields relative_im_path, class, test) and its images.
absl::StatusOr<ListedDataset> OpenCars196(const std::string& folder, ClassSplit split);

// Stanford Online Products: Ebay_train.txt and Ebay_test.txt, lines of "image_id class_id super_class_id path".
absl::StatusOr<ListedDataset> OpenSop(const std::string& folder);
absl::StatusOr<std::vector<LabelledPath>> ParseSop(std::string_view text, std::string_view what);

// Market-1501: bounding_box_train trains; query and bounding_box_test test by the protocol of Zheng et al. 2015. Junk
// (person -1) is left out, and distractors (person 0) stay in the gallery. A query's ranking leaves out gallery images
// of its person and camera (TestProtocol::cameras).
struct MarketName {
  int64_t person = 0;  // person; -1 for junk, 0 for a distractor
  int32_t camera = 0;
};
absl::StatusOr<ListedDataset> OpenMarket1501(const std::string& folder);
// "0002_c1s1_000451_03.jpg", "-1_c1s1_000401_03.jpg". INVALID_ARGUMENT for another form.
absl::StatusOr<MarketName> ParseMarketName(std::string_view file_name);

// MS1M as InsightFace packs it: train.rec and train.idx (trainer/data/recordio.h); labels are the identities. Of up to
// 2,500 identities with four images or more, spread evenly, the last two to four images test; all else trains.
absl::StatusOr<ListedDataset> OpenMs1m(const std::string& folder);

}  // namespace lightcone
