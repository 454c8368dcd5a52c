#include "trainer/data/dataset.h"

#include <algorithm>
#include <map>

#include "models/image.h"
#include "tests/trainer/data_files.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLoss = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;

std::map<int32_t, int> CountPerClass(const ImageSet& set) {
  std::map<int32_t, int> count;
  for (const int32_t label : set.labels) ++count[label];
  return count;
}

TEST(OpenDataset, AnUnknownNameListsTheKnownOnes) {
  for (const char* name : {"mnist", "glyphs:x", "npy", "npy:", "", ":/x"}) {
    ExpectOpenError(name, kInvalid, {StrCat("field 'data set' is '", name, "'"), "glyphs, cifar100:DIR, idx:DIR"});
  }
  for (const auto& [name, help] : DatasetKinds()) EXPECT_FALSE(help.empty()) << name;
}

// --- cifar100 ---

TEST(Cifar100, ReadsPlanesFineLabelsAndNames) {
  const Folder folder;
  const std::string row = CifarRow(3, 42, 10, 20, 30);
  folder.Write("cifar-100-binary/train.bin", row + CifarRow(0, 7, 1, 2, 3) + row + CifarRow(0, 7, 1, 2, 3));
  folder.Write("cifar-100-binary/test.bin", row);
  std::string names;
  for (int i = 0; i < 100; ++i) names += StrCat("name", i, "\n");
  folder.Write("cifar-100-binary/fine_label_names.txt", names);
  const auto set = OpenDataset("cifar100:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("name7", "name42"));
  EXPECT_THAT(set->train.labels, ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(set->train.image(0)[0], 10);
  EXPECT_EQ(set->train.image(0)[1], 20);
  EXPECT_EQ(set->train.image(0)[2], 30);
  EXPECT_EQ(set->test.size(), 1);
  EXPECT_EQ(set->augment, AugmentKind::kPhoto);
  EXPECT_NEAR(set->normalisation.mean[2], (30 + 3) / 2.0 / 255, 1e-6);
  EXPECT_NEAR(set->normalisation.stddev[2], 13.5 / 255, 1e-6);
}

TEST(Cifar100, ATruncatedOrCorruptFileIsDataLoss) {
  const Folder folder;
  const std::string name = "cifar100:" + folder.path(), row = CifarRow(0, 7, 1, 2, 3);
  ExpectOpenError(name, kMissing, {"train.bin"});
  folder.Write("train.bin", row + row.substr(1));
  ExpectOpenError(name, kLoss, {"train.bin", "has 6147 bytes", "a multiple of 3074", "153700000"});
  folder.Write("train.bin", row + CifarRow(20, 7, 0, 0, 0));
  ExpectOpenError(name, kLoss, {"train.bin", "row 1 has coarse label 20 and fine label 7", "0 .. 19", "0 .. 99"});
  folder.Write("train.bin", row + row);
  ExpectOpenError(name, kMissing, {"test.bin"});
  folder.Write("test.bin", row);
  folder.Write("fine_label_names.txt", "apple\nbear\n");
  ExpectOpenError(name, kLoss, {"fine_label_names.txt: has 2 names"});
}

TEST(Cifar100, ASetWithNoTestItemsIsRefused) {
  const Folder folder;
  folder.Write("train.bin", CifarRow(0, 7, 1, 2, 3) + CifarRow(0, 7, 1, 2, 3));
  folder.Write("test.bin", "");
  ExpectOpenError("cifar100:" + folder.path(), kInvalid, {"field 'test items' is 0; allowed: at least 1"});
}

// --- idx ---

void WriteIdx(const Folder& folder) {
  folder.Write("train-images-idx3-ubyte", IdxImages(4, 28, 28));
  folder.Write("train-labels-idx1-ubyte", IdxLabels({3, 9, 3, 9}));
  folder.Write("t10k-images-idx3-ubyte", IdxImages(2, 28, 28));
  folder.Write("t10k-labels-idx1-ubyte", IdxLabels({9, 3}));
}

TEST(Idx, ReadsTheFourFiles) {
  const Folder folder;
  WriteIdx(folder);
  const auto set = OpenDataset("idx:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("3", "9"));
  EXPECT_THAT(set->test.labels, ElementsAre(1, 0));
  EXPECT_EQ(set->train.height, 28);
  EXPECT_EQ(set->train.image(1)[0], 784 % 251);
  EXPECT_EQ(set->augment, AugmentKind::kDrawing);
}

TEST(Idx, EveryDefectIsNamed) {
  const Folder folder;
  WriteIdx(folder);
  const std::string name = "idx:" + folder.path(), images = "train-images-idx3-ubyte";
  const std::string good = IdxImages(4, 28, 28);
  folder.Write(images, good.substr(0, 1000));
  ExpectOpenError(name, kLoss, {images, "truncated: has 1000 bytes; its header asks for 3152"});
  folder.Write(images, good + "x");
  ExpectOpenError(name, kLoss, {images, "corrupt: has 3153 bytes"});
  folder.Write(images, good.substr(0, 9));
  ExpectOpenError(name, kLoss, {images, "truncated: has 9 bytes; the header has 16"});
  folder.Write(images, IdxLabels({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ExpectOpenError(name, kLoss, {images, "magic number is 0x00000801; allowed: 0x00000803"});
  folder.Write(images, std::string("\x1f\x8b\x08\x00", 4) + std::string(20, 'z'));
  ExpectOpenError(name, kLoss, {"gunzip"});
  folder.Write(images, IdxImages(3, 28, 28));
  ExpectOpenError(name, kLoss, {"has 4 labels", "has 3 images"});
  folder.Write(images, BigEndian32(0x803) + BigEndian32(1) + BigEndian32(0) + BigEndian32(28));
  ExpectOpenError(name, kLoss, {"images of 0 x 28; allowed: sides of 1 .. 4096"});
  folder.Write(images, good);
  const std::string labels = "train-labels-idx1-ubyte", nine = IdxLabels({3, 9, 3, 9});
  folder.Write(labels, nine.substr(0, 10));
  ExpectOpenError(name, kLoss, {labels, "truncated: has 10 bytes; its header asks for 12"});
  folder.Write(labels, nine.substr(0, 5));
  ExpectOpenError(name, kLoss, {labels, "truncated: has 5 bytes; the header has 8"});
  folder.Write(labels, nine + "x");
  ExpectOpenError(name, kLoss, {labels, "corrupt: has 13 bytes"});
  folder.Write(labels, good);
  ExpectOpenError(name, kLoss, {labels, "magic number is 0x00000803; allowed: 0x00000801"});
  folder.Write(labels, nine);
  std::filesystem::rename(folder.path() + "/" + images, folder.path() + "/" + images + ".gz");
  ExpectOpenError(name, kMissing, {images, "unpack it with gunzip"});
}

TEST(Idx, ASetWithNoTestItemsIsRefused) {
  const Folder folder;
  WriteIdx(folder);
  folder.Write("t10k-images-idx3-ubyte", IdxImages(0, 28, 28));
  folder.Write("t10k-labels-idx1-ubyte", IdxLabels({}));
  ExpectOpenError("idx:" + folder.path(), kInvalid, {"idx:", "field 'test items' is 0; allowed: at least 1"});
}

// --- npy ---

TEST(Npy, SplitsEachClassWhereThereAreNoTestFiles) {
  const Folder folder;
  std::vector<int64_t> labels;
  for (int i = 0; i < 20; ++i) labels.push_back(1000);
  for (int i = 0; i < 4; ++i) labels.push_back(-5);
  for (int i = 0; i < 2; ++i) labels.push_back(7);
  folder.Write("images.npy", NpyImages({26, 28, 28}));
  folder.Write("labels.npy", NpyLabels(labels));
  const auto set = OpenDataset("npy:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("-5", "7", "1000"));
  EXPECT_THAT(CountPerClass(set->train), ElementsAre(std::pair(0, 2), std::pair(1, 1), std::pair(2, 15)));
  EXPECT_THAT(CountPerClass(set->test), ElementsAre(std::pair(0, 2), std::pair(1, 1), std::pair(2, 5)));
  EXPECT_THAT(set->notes, HasSubstr("a quarter of each class"));
  const auto again = OpenDataset("npy:" + folder.path(), 1), other = OpenDataset("npy:" + folder.path(), 2);
  EXPECT_EQ(again->test.pixels, set->test.pixels);
  EXPECT_NE(other->test.pixels, set->test.pixels);
}

TEST(Npy, TestFilesAreUsedAndClassesOfTheTestAloneComeLast) {
  const Folder folder;
  folder.Write("images.npy", NpyImages({4, 32, 32, 3}));
  folder.Write("labels.npy", NpyLabels({5, 5, 8, 8}));
  folder.Write("test_images.npy", NpyImages({4, 32, 32, 3}));
  folder.Write("test_labels.npy", NpyLabels({2, 2, 5, 8}));
  const auto set = OpenDataset("npy:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("5", "8", "2"));
  EXPECT_THAT(set->test.labels, ElementsAre(2, 2, 0, 1));
  EXPECT_EQ(set->train.channels, 3);
}

TEST(Npy, LargeImagesShrinkAndTinyOnesGrow) {
  for (const auto& [side, expected] : std::vector<std::pair<int, int>>{{105, 32}, {64, 64}, {8, 16}, {28, 28}}) {
    const Folder folder;
    folder.Write("images.npy", NpyImages({4, side, side}));
    folder.Write("labels.npy", NpyLabels({0, 0, 1, 1}));
    const auto set = OpenDataset("npy:" + folder.path(), 1);
    ASSERT_TRUE(set.ok()) << MessageOf(set.status());
    EXPECT_EQ(set->train.height, expected);
    EXPECT_EQ(set->train.pixels.size(), set->train.size() * expected * expected);
    EXPECT_EQ(set->notes.find("resized") != std::string::npos, side != expected);
  }
}

TEST(Npy, APrefixNamesArraysBesideOthersAndTheErrorSaysSo) {
  const Folder folder;
  folder.Write("background_images.npy", NpyImages({4, 28, 28}));
  folder.Write("background_labels.npy", NpyLabels({0, 0, 1, 1}));
  ExpectOpenError("npy:" + folder.path(), kMissing,
                  {"images.npy'; there is: background_images.npy", "npy:" + folder.path() + "/background"});
  EXPECT_TRUE(OpenDataset("npy:" + folder.path() + "/background", 1).ok());
  ExpectOpenError("npy:" + folder.path() + "/nothing", kMissing, {"nothing_images.npy"});
}

TEST(Npy, EveryDefectIsNamed) {
  const Folder folder;
  const std::string name = "npy:" + folder.path(), good = NpyImages({4, 28, 28});
  folder.Write("images.npy", good);
  ExpectOpenError(name, kMissing, {"labels.npy"});
  folder.Write("labels.npy", NpyLabels({0, 0, 1, 2}));
  ExpectOpenError(name, kInvalid, {name, "field 'images of class '1'' is 1; allowed: at least 2"});
  folder.Write("labels.npy", NpyLabels({0, 0, 1}));
  ExpectOpenError(name, kInvalid, {"labels.npy: shape' is (3,); allowed: (4,), one label an image"});
  folder.Write("labels.npy", EncodeNpy(NpyType::kFloat32, {4}, std::string(16, '\0')));
  ExpectOpenError(name, kInvalid, {"labels.npy: dtype' is float32; allowed: an integer type"});
  folder.Write("labels.npy", NpyLabels({0, 0, 1, 1}));
  folder.Write("images.npy", good.substr(0, good.size() - 5));
  ExpectOpenError(name, kLoss, {"images.npy: truncated: has 3131 bytes of data", "needs 3136"});
  folder.Write("images.npy", "no array");
  ExpectOpenError(name, kLoss, {"images.npy"});
  folder.Write("images.npy", EncodeNpy(NpyType::kFloat32, {4, 1, 1}, std::string(16, '\0')));
  ExpectOpenError(name, kInvalid, {"images.npy: dtype' is float32; allowed: uint8"});
  folder.Write("images.npy", NpyImages({4, 3, 32, 32}));
  ExpectOpenError(name, kInvalid, {"images.npy: shape' is (4, 3, 32, 32)", "(N, H, W, C) with C of 1 or 3"});
  folder.Write("images.npy", good);
  folder.Write("test_images.npy", NpyImages({0, 28, 28}));
  ExpectOpenError(name, kMissing, {"test_labels.npy"});
  folder.Write("test_labels.npy", NpyLabels({}));
  ExpectOpenError(name, kInvalid, {"field 'test items' is 0; allowed: at least 1"});
  folder.Write("test_images.npy", NpyImages({2, 32, 32}));
  folder.Write("test_labels.npy", NpyLabels({0, 1}));
  ExpectOpenError(name, kInvalid, {"size of the test images' is 32 x 32 x 1; allowed: 28 x 28 x 1"});
}

// --- folder ---

TEST(ImageFolders, OneFolderAClassIsDecodedAndSplit) {
  const Folder folder;
  for (int i = 0; i < 4; ++i) {
    folder.Write(StrCat("cat/", i, ".png"), GreyPng(24, 24, 10 + i));
    folder.Write(StrCat("dog/", i, ".PNG"), GreyPng(24, 24, 200 + i));
  }
  folder.Write("cat/readme.txt", "ignored");
  folder.Write("cat/.hidden", "ignored");
  const auto set = OpenDataset("folder:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(set->train.height, 24);
  EXPECT_EQ(set->train.channels, 1);
  for (const ImageSet* part : {&set->train, &set->test}) {
    ASSERT_EQ(part->size(), 4);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(part->image(i)[0] >= 200, part->labels[i] == 1);
  }
}

TEST(ImageFolders, ASetWithAnEmptyTestFolderIsRefused) {
  const Folder folder;
  for (const char* name : {"train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png"}) {
    folder.Write(name, GreyPng(8, 8, 7));
  }
  std::filesystem::create_directories(folder.path() + "/test");
  ExpectOpenError("folder:" + folder.path(), kInvalid, {"folder:", "field 'test items' is 0; allowed: at least 1"});
}

TEST(ImageFolders, DifferentSizesBecomeTheMedianSideAndAnyColourMakesAllColour) {
  const Folder folder;
  const std::vector<uint8_t> colour(50 * 30 * 3, 99);
  folder.Write("a/1.png", EncodePng(colour.data(), 50, 30, 3).value());
  folder.Write("a/2.png", GreyPng(200, 300, 10));
  folder.Write("b/1.png", GreyPng(41, 41, 20));
  folder.Write("b/2.png", GreyPng(41, 41, 30));
  const auto set = OpenDataset("folder:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_EQ(set->train.height, 40);
  EXPECT_EQ(set->train.width, 40);
  EXPECT_EQ(set->train.channels, 3);
  EXPECT_EQ(set->notes.substr(0, 26), "images resized to 40 x 40;");
}

TEST(ImageFolders, TrainAndTestFoldersAreUsed) {
  const Folder folder;
  for (const char* part : {"train/x/1.png", "train/x/2.png", "train/y/1.png", "train/y/2.png", "test/x/1.png"}) {
    folder.Write(part, GreyPng(32, 32, 50));
  }
  const auto set = OpenDataset("folder:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_EQ(set->train.size(), 4);
  EXPECT_THAT(set->test.labels, ElementsAre(0));
  std::filesystem::remove_all(folder.path() + "/test/x");
  ExpectOpenError("folder:" + folder.path(), kInvalid, {"field 'test items' is 0; allowed: at least 1"});
}

TEST(ImageFolders, EveryDefectIsNamed) {
  const Folder folder;
  const std::string name = "folder:" + folder.path();
  ExpectOpenError(name + "/none", kMissing, {"none"});
  ExpectOpenError(name, kInvalid, {"field 'training images' is 0 in"});
  folder.Write("a/1.png", GreyPng(32, 32, 1));
  folder.Write("a/2.png", GreyPng(32, 32, 1));
  folder.Write("b/1.png", GreyPng(32, 32, 1));
  ExpectOpenError(name, kInvalid, {"field 'images of class 'b'' is 1; allowed: at least 2"});
  folder.Write("b/2.png", GreyPng(32, 32, 1).substr(0, 40));
  ExpectOpenError(name, kInvalid, {"b/2.png: truncated PNG"});
  folder.Write("b/2.png", "not a picture");
  ExpectOpenError(name, kInvalid, {"b/2.png: ", "a PNG, JPEG or WebP file"});
  folder.Write("b/2.png", GreyPng(32, 32, 1));
  folder.Write("b/3.bmp", "BM");
  ExpectOpenError(name, kInvalid, {"b/3.bmp'; allowed: .png, .jpg, .jpeg or .webp"});
  std::filesystem::remove(folder.path() + "/b/3.bmp");
  folder.Write("stray.png", GreyPng(32, 32, 1));
  ExpectOpenError(name, kInvalid, {"stray.png'; allowed: one folder for each class"});
}

TEST(EncodePng, RoundTripsAndRefusesOtherChannels) {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6};
  const auto decoded = DecodeImage(EncodePng(pixels.data(), 1, 2, 3).value());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->pixels, pixels);
  EXPECT_THAT(MessageOf(EncodePng(pixels.data(), 1, 3, 2).status()), HasSubstr("field 'channels' is 2"));
  EXPECT_THAT(MessageOf(EncodePng(pixels.data(), 0, 3, 1).status()), HasSubstr("field 'image size' is 0 x 3"));
}

}  // namespace
}  // namespace lightcone
