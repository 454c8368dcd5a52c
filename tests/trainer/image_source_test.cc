// Sets that are too large for memory: decoded when they are read, the same as in memory.
#include "trainer/data/image_source.h"

#include <algorithm>

#include "tests/trainer/paper_files.h"
#include "trainer/data/loader.h"
#include "trainer/data/raw.h"
#include "trainer/data/split.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

void WriteClasses(const Folder& folder) {
  for (int label = 0; label < 3; ++label) {
    for (int i = 0; i < 8; ++i) {
      folder.Write(StrCat("train/", label, "/", i, ".png"), ColourPng(20, 20, 10 * label, i, 50));
      folder.Write(StrCat("test/", label, "/", i, ".png"), ColourPng(20, 20, 100 + 10 * label, i, 50));
    }
  }
}

TEST(ImageSource, ASetAboveTheBoundIsDecodedWhenReadAndEqualToOneInMemory) {
  const Folder folder;
  WriteClasses(folder);
  const std::string name = "folder@20:" + folder.path();
  const Dataset memory = *OpenDataset(name, 1), outside = *OpenDataset(name, 1, 48 * 20 * 20 * 3 - 1);
  ASSERT_TRUE(memory.train.in_memory());
  ASSERT_FALSE(outside.train.in_memory());
  EXPECT_TRUE(outside.train.pixels.empty());
  EXPECT_TRUE(OpenDataset(name, 1, 48 * 20 * 20 * 3)->train.in_memory());
  EXPECT_EQ(memory.normalisation.mean, outside.normalisation.mean);
  EXPECT_THAT(outside.notes, HasSubstr("decoded when read"));
  const std::vector<int64_t> rows = {20, 3, 11};
  const ImageSet part = SelectRows(outside.train, rows);
  std::vector<uint8_t> pixels(static_cast<size_t>(part.bytes_per_image()));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(part.labels[i], memory.train.labels[static_cast<size_t>(rows[i])]);
    ASSERT_TRUE(part.Read(static_cast<int64_t>(i), pixels.data()).ok());
    const uint8_t* expected = memory.train.image(rows[i]);
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), expected));
  }
  EXPECT_EQ(*EncodePng(outside.test, 5), *EncodePng(memory.test, 5));
}

TEST(ImageSource, BatchesOfBothKindsAreTheSame) {
  const Folder folder;
  WriteClasses(folder);
  const std::string name = "folder@20:" + folder.path();
  const Dataset memory = *OpenDataset(name, 1), outside = *OpenDataset(name, 1, 0);
  LoaderOptions options;
  options.batch_size = 7;
  options.augment = AugmentKind::kPhoto;
  options.workers = 2;
  const auto a = *BatchLoader::Create(&memory.train, memory.normalisation, options);
  const auto b = *BatchLoader::Create(&outside.train, outside.normalisation, options);
  int batches = 0;
  for (Batch x, y; a->Next(&x); ++batches) {
    ASSERT_TRUE(b->Next(&y));
    EXPECT_EQ(x.images, y.images);
    EXPECT_EQ(x.labels, y.labels);
  }
  EXPECT_EQ(batches, 3);
  Batch last;
  EXPECT_FALSE(b->Next(&last));
  EXPECT_TRUE(b->status().ok());
}

TEST(ImageSource, AFileThatTurnsBadEndsTheBatchesWithItsName) {
  const Folder folder;
  WriteClasses(folder);
  const Dataset outside = *OpenDataset("folder@20:" + folder.path(), 1, 0);
  folder.Write("train/1/3.png", "no longer a picture");
  LoaderOptions options;
  options.batch_size = 4;
  options.workers = 2;
  options.epochs = 50;
  const auto loader = *BatchLoader::Create(&outside.train, outside.normalisation, options);
  Batch batch;
  int batches = 0;
  while (loader->Next(&batch)) ++batches;
  EXPECT_LT(batches, 50 * 6);
  EXPECT_THAT(MessageOf(loader->status()), HasSubstr("train/1/3.png"));
  ImageSet train = outside.train;
  EXPECT_THAT(MessageOf(DecodeIntoMemory(&train)), HasSubstr("train/1/3.png"));
}

TEST(ImageSource, TheChecksumTellsSetsApartButNotPlaces) {
  const Folder one, two;
  WriteClasses(one);
  WriteClasses(two);
  const ImageSet a = OpenDataset("folder@20:" + one.path(), 1, 0)->train;
  EXPECT_EQ(PixelChecksum(a), PixelChecksum(OpenDataset("folder@20:" + two.path(), 1, 0)->train));
  EXPECT_NE(PixelChecksum(a), PixelChecksum(OpenDataset("folder@24:" + two.path(), 1, 0)->train));
  EXPECT_NE(PixelChecksum(a), PixelChecksum(SelectRows(a, {0, 1, 2})));
  two.Write("train/0/0.png", ColourPng(20, 20, 0, 0, 50) + "longer");
  EXPECT_NE(PixelChecksum(a), PixelChecksum(OpenDataset("folder@20:" + two.path(), 1, 0)->train));
}

TEST(ImageSource, AnotherImageOfTheSameSizeOnDiskIsAnotherSet) {
  const Folder one, two;
  for (const Folder* folder : {&one, &two}) {
    WriteClasses(*folder);
    folder->Write("train/1/3.png", ColourPng(20, 20, 10, 3, 50) + "tail");
  }
  const auto checksum = [](const Folder& folder) {
    return PixelChecksum(OpenDataset("folder@20:" + folder.path(), 1, 0)->train);
  };
  EXPECT_EQ(checksum(one), checksum(two));
  two.Write("train/1/3.png", ColourPng(20, 20, 10, 3, 50) + "tale");
  EXPECT_NE(checksum(one), checksum(two));
}

TEST(CropAndResize, KeepsTheMiddleOfTheWantedRatio) {
  Image tall{4, 2, 1, {1, 1, 7, 7, 9, 9, 3, 3}};
  EXPECT_THAT(CropAndResize(tall, 2, 2, 1).pixels, ElementsAreArray({7, 7, 9, 9}));
  Image broad{1, 5, 3, {}};
  for (int x = 0; x < 5; ++x) broad.pixels.insert(broad.pixels.end(), {static_cast<uint8_t>(x), 100, 200});
  const Image middle = CropAndResize(broad, 2, 6, 3);  // 1 x 3 of it
  EXPECT_EQ(middle.height, 2);
  EXPECT_EQ(middle.width, 6);
  EXPECT_EQ(middle.pixels[0], 1);
  EXPECT_EQ(middle.pixels[3 * 5], 3);
}

}  // namespace
}  // namespace lightcone
