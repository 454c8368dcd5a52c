#include "trainer/data/paper_sets.h"

#include "tests/trainer/paper_files.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLoss = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;

TEST(PaperSets, ASideIsChosenInTheNameAndCheckedThere) {
  ExpectOpenError("cub@8:/x", kInvalid, {"field 'side of a data set' is '8'; allowed: 16 .. 512"});
  ExpectOpenError("cub@:/x", kInvalid, {"field 'side of a data set' is ''"});
  ExpectOpenError("cifar100@32:/x", kInvalid, {"'cifar100@32:/x'; allowed: a side only for the kinds that resize"});
  ExpectOpenError("nothing@32:/x", kInvalid, {"field 'data set' is 'nothing@32:/x'"});
}

// --- TinyImageNet ---

void WriteTinyImageNet(const Folder& folder) {
  folder.Write("tiny-imagenet-200/wnids.txt", "n02\nn01\n");
  for (int i = 0; i < 2; ++i) {
    folder.Write(StrCat("tiny-imagenet-200/train/n01/images/n01_", i, ".JPEG"), ColourPng(64, 64, 10, i, 0));
    folder.Write(StrCat("tiny-imagenet-200/train/n02/images/n02_", i, ".JPEG"), GreyPng(64, 64, 20));
    folder.Write(StrCat("tiny-imagenet-200/val/images/val_", i, ".JPEG"), ColourPng(64, 64, 100 + i, 0, 0));
  }
  folder.Write("tiny-imagenet-200/train/n01/n01_boxes.txt", "n01_0.JPEG\t0\t0\t1\t1\n");
  folder.Write("tiny-imagenet-200/val/val_annotations.txt",
               "val_1.JPEG\tn01\t0\t0\t1\t1\nval_0.JPEG\tn02\t0\t0\t1\t1\n");
}

TEST(TinyImageNet, TakesClassesInTheOrderOfTheirWnidsAndValAsTest) {
  const Folder folder;
  WriteTinyImageNet(folder);
  const auto set = OpenDataset("tinyimagenet:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("n01", "n02"));
  EXPECT_THAT(set->train.labels, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(set->test.labels, ElementsAre(0, 1));
  EXPECT_EQ(set->train.height, 64);
  EXPECT_EQ(set->train.channels, 3);
  EXPECT_EQ(set->train.image(1)[1], 1);
  EXPECT_EQ(set->train.image(2)[2], 20);  // a grey file in a colour set
  EXPECT_EQ(set->test.image(0)[0], 101);
  EXPECT_EQ(set->augment, AugmentKind::kPhoto);
}

TEST(TinyImageNet, EveryDefectIsNamed) {
  const Folder folder;
  const std::string name = "tinyimagenet:" + folder.path(), home = "tiny-imagenet-200/";
  ExpectOpenError(name, kMissing, {"wnids.txt"});
  WriteTinyImageNet(folder);
  folder.Write(home + "val/val_annotations.txt", "val_1.JPEG\tn01\nval_0.JPEG\tn99\n");
  ExpectOpenError(name, kLoss, {"val_annotations.txt:2: wnid' is 'n99'; allowed: the classes of wnids.txt"});
  folder.Write(home + "val/val_annotations.txt", "val_1.JPEG\n");
  ExpectOpenError(name, kLoss, {"val_annotations.txt:1: line' is 'val_1.JPEG'; allowed: at least 2 fields"});
  folder.Write(home + "val/val_annotations.txt", "val_7.JPEG\tn01\n");
  ExpectOpenError(name, kMissing, {"val/images/val_7.JPEG"});
  WriteTinyImageNet(folder);
  folder.Write(home + "wnids.txt", "n01\nn02\nn01\n");
  ExpectOpenError(name, kLoss, {"wnids.txt:3: wnid' is 'n01'; allowed: each class once"});
  folder.Write(home + "wnids.txt", "n01\n");
  ExpectOpenError(name, kInvalid, {"train/n02'; allowed: the classes of wnids.txt"});
  folder.Write(home + "wnids.txt", "n01\nn02\nn03\n");
  ExpectOpenError(name, kMissing, {"train/n03/images"});
}

// --- ImageNet folders ---

TEST(ImageNet, TrainAndValFoldersAreCroppedToTheMiddleAndResized) {
  const Folder folder;
  std::vector<uint8_t> broad(20 * 40 * 3, 9);  // 20 high, 40 wide: a middle of 200 between borders of 9
  for (int y = 0; y < 20; ++y) {
    for (int x = 10; x < 30; ++x) broad[static_cast<size_t>(3 * (40 * y + x))] = 200;
  }
  for (const char* part : {"train/n01/a.JPEG", "train/n01/b.JPEG", "train/n02/a.JPEG", "val/n02/c.JPEG"}) {
    folder.Write(part, EncodePng(broad.data(), 20, 40, 3).value());
  }
  folder.Write("test/unknown/d.JPEG", EncodePng(broad.data(), 20, 40, 3).value());  // whose classes nobody tells
  const auto set = OpenDataset("imagenet@20:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->test.labels, ElementsAre(1));
  EXPECT_EQ(set->classes(), 2);
  for (int i = 0; i < 20 * 20; ++i) EXPECT_EQ(set->train.image(0)[3 * i], 200) << i;
  const auto wide = OpenDataset("imagenet:" + folder.path(), 1);
  EXPECT_EQ(wide->train.height, 224);
  folder.Write("val/ILSVRC2012_val_00000001.JPEG", "x");
  ExpectOpenError("imagenet:" + folder.path(), kInvalid,
                  {"ILSVRC2012_val_00000001.JPEG'; allowed: one folder for each"});
}

TEST(ImageNet, OneFolderAClassAloneIsSplitAndEmptyOnesAreRefused) {
  const Folder folder;
  for (int i = 0; i < 4; ++i) folder.Write(StrCat("a/", i, ".png"), GreyPng(16, 16, i));
  for (int i = 0; i < 4; ++i) folder.Write(StrCat("b/", i, ".png"), GreyPng(16, 16, i));
  const auto set = OpenDataset("folder@16:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_EQ(set->train.size(), 4);
  EXPECT_EQ(set->test.size(), 4);
  EXPECT_THAT(set->notes, HasSubstr("a quarter of each class was set aside"));
  const Folder empty;
  ExpectOpenError("folder@16:" + empty.path(), kInvalid, {"field 'training images' is 0 in"});
}

// --- CUB-200-2011 ---

void WriteCub(const Folder& folder) {
  std::string images, labels, split, classes;
  int id = 0;
  for (int label = 1; label <= 4; ++label) {
    classes += StrCat(label, " 00", label, ".Bird\n");
    for (int i = 0; i < 2; ++i) {
      const std::string path = StrCat("00", label, ".Bird/Bird_", i, ".jpg");
      folder.Write("CUB_200_2011/images/" + path, ColourPng(16, 16, 10 * label + i, 0, 0));
      images += StrCat(++id, " ", path, "\n");
      labels += StrCat(id, " ", label, "\n");
      split += StrCat(id, " ", 1 - i, "\n");
    }
  }
  folder.Write("CUB_200_2011/images.txt", images);
  folder.Write("CUB_200_2011/image_class_labels.txt", labels);
  folder.Write("CUB_200_2011/train_test_split.txt", split);
  folder.Write("CUB_200_2011/classes.txt", classes);
}

TEST(Cub200, DividesByClassOrByTheAuthorsSplit) {
  const Folder folder;
  WriteCub(folder);
  const auto by_class = OpenDataset("cub@16:" + folder.path(), 1);
  ASSERT_TRUE(by_class.ok()) << MessageOf(by_class.status());
  EXPECT_THAT(by_class->class_names, ElementsAre("001.Bird", "002.Bird", "003.Bird", "004.Bird"));
  EXPECT_THAT(by_class->train.labels, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(by_class->test.labels, ElementsAre(2, 2, 3, 3));
  EXPECT_EQ(by_class->test.image(3)[0], 41);
  const auto by_authors = OpenDataset("cub-official@16:" + folder.path(), 1);
  EXPECT_THAT(by_authors->train.labels, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(by_authors->test.image(1)[0], 21);
}

TEST(Cub200, EveryDefectNamesTheLine) {
  const Folder folder;
  const std::string name = "cub@16:" + folder.path(), home = "CUB_200_2011/";
  ExpectOpenError(name, kMissing, {"images.txt"});
  WriteCub(folder);
  folder.Write(home + "image_class_labels.txt", "1 1\n2 5\n");
  ExpectOpenError(name, kLoss, {"image_class_labels.txt:2: class_id' is '5'; allowed: a whole number, 1 .. 4"});
  folder.Write(home + "image_class_labels.txt", "1 1\n9 1\n");
  ExpectOpenError(name, kLoss, {"image_class_labels.txt:2: image_id' is '9'; allowed: the ids of images.txt"});
  folder.Write(home + "image_class_labels.txt", "1 1\n1 1\n");
  ExpectOpenError(name, kLoss, {"image_class_labels.txt:2: image_id' is '1'; allowed: each image once"});
  folder.Write(home + "image_class_labels.txt", "1 1\n");
  ExpectOpenError(name, kLoss, {"image_class_labels.txt: has no line for image_id 2"});
  WriteCub(folder);
  folder.Write(home + "images.txt", "1 /etc/passwd\n");
  ExpectOpenError(name, kLoss, {"images.txt:1: image_name' is '/etc/passwd'; allowed: a path below the data folder"});
  WriteCub(folder);
  folder.Write(home + "classes.txt", "1 a\n3 b\n");
  ExpectOpenError(name, kLoss, {"classes.txt:2: class_id' is '3'; allowed: a whole number, 2 .. 2"});
  WriteCub(folder);
  folder.Write(home + "train_test_split.txt", "1 2\n");
  ExpectOpenError("cub-official@16:" + folder.path(), kLoss, {"train_test_split.txt:1: is_training_image' is '2'"});
  std::filesystem::remove(folder.path() + "/" + home + "images/001.Bird/Bird_1.jpg");
  ExpectOpenError(name, kMissing, {"001.Bird/Bird_1.jpg"});
}

// --- Stanford Online Products ---

TEST(Sop, ReadsBothListsAndNamesBadLines) {
  const Folder folder;
  const std::string name = "sop@16:" + folder.path(), header = "image_id class_id super_class_id path\n";
  ExpectOpenError(name, kMissing, {"Ebay_train.txt"});
  folder.Write("Ebay_train.txt", header + "1 1 1 bicycle_final/1_0.JPG\n2 1 1 bicycle_final/1_1.JPG\n");
  folder.Write("Ebay_test.txt", header + "3 2 1 bicycle_final/2_0.JPG\n4 2 1 bicycle_final/2_1.JPG\n");
  ExpectOpenError(name, kMissing, {"bicycle_final/1_0.JPG"});
  for (const char* image : {"1_0", "1_1", "2_0", "2_1"}) {
    folder.Write(StrCat("bicycle_final/", image, ".JPG"), ColourPng(16, 16, image[0], 0, 0));
  }
  const auto set = OpenDataset(name, 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_THAT(set->class_names, ElementsAre("1", "2"));
  EXPECT_THAT(set->train.labels, ElementsAre(0, 0));
  EXPECT_THAT(set->test.labels, ElementsAre(1, 1));
  EXPECT_EQ(set->test.image(0)[0], '2');
  folder.Write("Ebay_test.txt", "3 2 1 bicycle_final/2_0.JPG\n");
  ExpectOpenError(name, kLoss, {"Ebay_test.txt:1: header' is '3'"});
  folder.Write("Ebay_test.txt", header + "3 0 1 bicycle_final/2_0.JPG\n");
  ExpectOpenError(name, kLoss, {"Ebay_test.txt:2: class_id' is '0'"});
  folder.Write("Ebay_test.txt", header + "3 2 1\n");
  ExpectOpenError(name, kLoss, {"Ebay_test.txt:2: line' is '3 2 1'"});
  folder.Write("Ebay_test.txt", header);
  ExpectOpenError(name, kInvalid, {"field 'test items' is 0"});
}

// --- Market-1501 ---

TEST(Market1501, KeepsCamerasAndDistractorsAndLeavesJunkOut) {
  const Folder folder;
  for (const char* file : {"0002_c1s1_000451_03.jpg", "0002_c2s1_000451_03.jpg", "0007_c3s1_000451_03.jpg"}) {
    folder.Write(StrCat("bounding_box_train/", file), ColourPng(32, 16, 1, 0, 0));
  }
  folder.Write("bounding_box_train/Thumbs.db", "x");
  for (const char* file :
       {"-1_c1s1_000401_03.jpg", "0000_c5s1_000151_01.jpg", "0003_c1s3_000551_00.jpg", "0003_c6s1_000551_00.jpg"}) {
    folder.Write(StrCat("bounding_box_test/", file), ColourPng(32, 16, 2, 0, 0));
  }
  folder.Write("query/0003_c1s1_000551_00.jpg", ColourPng(32, 16, 3, 0, 0));
  const auto set = OpenDataset("market1501@32:" + folder.path(), 1);
  ASSERT_TRUE(set.ok()) << MessageOf(set.status());
  EXPECT_EQ(set->train.height, 32);
  EXPECT_EQ(set->train.width, 16);
  EXPECT_THAT(set->train.labels, ElementsAre(0, 0, 1));
  EXPECT_THAT(set->class_names, ElementsAre("2", "7", "distractors", "3"));
  EXPECT_THAT(set->test.labels, ElementsAre(2, 3, 3, 3));
  ASSERT_TRUE(set->protocol.has_value());
  EXPECT_THAT(set->protocol->gallery, ElementsAre(0, 1, 2));
  EXPECT_THAT(set->protocol->queries, ElementsAre(3));
  EXPECT_THAT(set->protocol->cameras, ElementsAre(5, 1, 6, 1));
  EXPECT_THAT(set->notes, HasSubstr("1 junk images left out"));
  EXPECT_EQ(set->test.image(3)[0], 3);
}

TEST(Market1501, BadNamesAndDistractorsInTheWrongFolderAreRefused) {
  EXPECT_EQ(ParseMarketName("-1_c3s2_000401_03.jpg")->person, -1);
  EXPECT_EQ(ParseMarketName("1501_c6s4_000401_03.jpg")->camera, 6);
  for (const char* bad : {"0002.jpg", "0002_c0s1_1.jpg", "-2_c1s1_1.jpg", "0002_cs1_1.jpg", "0002_c1_1.jpg", ""}) {
    EXPECT_THAT(MessageOf(ParseMarketName(bad).status()), HasSubstr(StrCat("field 'file name' is '", bad, "'"))) << bad;
  }
  const Folder folder;
  const std::string name = "market1501@32:" + folder.path();
  ExpectOpenError(name, kMissing, {"bounding_box_train"});
  for (const char* part : {"bounding_box_train", "bounding_box_test", "query"}) {
    folder.Write(StrCat(part, "/0002_c1s1_000451_03.jpg"), ColourPng(32, 16, 1, 0, 0));
  }
  folder.Write("query/0000_c1s1_000451_03.jpg", ColourPng(32, 16, 1, 0, 0));
  ExpectOpenError(name, kInvalid, {"query/0000_c1s1_000451_03.jpg'; allowed: above 0"});
  folder.Write("query/picture.jpg", ColourPng(32, 16, 1, 0, 0));
  ExpectOpenError(name, kInvalid, {"/query: field 'file name' is 'picture.jpg'"});
}

}  // namespace
}  // namespace lightcone
