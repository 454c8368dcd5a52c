#include "trainer/data/face_lists.h"

#include "tests/trainer/paper_files.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Templates 10 (two frames of a video, one photo), 20 and 30.
void WriteIjbc(const Folder& folder) {
  for (int i = 1; i <= 5; ++i) folder.Write(StrCat("loose_crop/", i, ".jpg"), ColourPng(20, 24, 10 * i, 0, 0));
  folder.Write("meta/ijbc_face_tid_mid.txt", "1.jpg 10 7\n2.jpg 10 7\n3.jpg 10 8\n4.jpg 30 9\n5.jpg 20 6\n");
  folder.Write("meta/ijbc_template_pair_label.txt", "10 20 0\n10 30 1\n");
  folder.Write("meta/ijbc_1N_gallery_G1.csv", "TEMPLATE_ID,SUBJECT_ID,FILENAME\n10,500,a.jpg\n10,500,b.jpg\n");
  folder.Write("meta/ijbc_1N_gallery_G2.csv", "TEMPLATE_ID,SUBJECT_ID,FILENAME\n20,501,c.jpg\n");
  folder.Write("meta/ijbc_1N_probe_mixed.csv", "TEMPLATE_ID,SUBJECT_ID,FILENAME\n30,500,d.jpg\n");
}

void ExpectError(const Folder& folder, absl::StatusCode code, const std::string& text) {
  const auto lists = OpenFaceLists(folder.path());
  EXPECT_EQ(lists.status().code(), code);
  EXPECT_THAT(MessageOf(lists.status()), HasSubstr(text));
}

TEST(FaceLists, NumberTheTemplatesAndKeepMediaPairsAndSubjects) {
  const Folder folder;
  WriteIjbc(folder);
  const auto lists = OpenFaceLists(folder.path());
  ASSERT_TRUE(lists.ok()) << MessageOf(lists.status());
  EXPECT_EQ(lists->templates, 3);
  EXPECT_THAT(lists->images.labels, ElementsAre(0, 0, 0, 2, 1));
  EXPECT_THAT(lists->media, ElementsAre(7, 7, 8, 9, 6));
  ASSERT_EQ(lists->pairs.size(), 2u);
  EXPECT_EQ(lists->pairs[1].second, 2);
  EXPECT_TRUE(lists->pairs[1].same);
  ASSERT_EQ(lists->gallery_1.size(), 1u);  // two lines, one template
  EXPECT_EQ(lists->gallery_1[0].subject_id, 500);
  EXPECT_EQ(lists->probes[0].template_id, 2);
  std::vector<uint8_t> pixels(static_cast<size_t>(lists->images.bytes_per_image()));
  ASSERT_EQ(pixels.size(), 112u * 112 * 3);
  ASSERT_TRUE(lists->images.Read(3, pixels.data()).ok());
  EXPECT_EQ(pixels[0], 40);
}

TEST(FaceLists, EveryDefectNamesTheLine) {
  const Folder folder;
  ExpectError(folder, absl::StatusCode::kNotFound, "ijbc_face_tid_mid.txt");
  constexpr auto kLoss = absl::StatusCode::kDataLoss;
  WriteIjbc(folder);
  folder.Write("meta/ijbc_face_tid_mid.txt", "1.jpg 10 7\n2.jpg 10\n");
  ExpectError(folder, kLoss, "ijbc_face_tid_mid.txt:2: line' is '2.jpg 10'; allowed: at least 3 fields");
  folder.Write("meta/ijbc_face_tid_mid.txt", "1.jpg ten 7\n");
  ExpectError(folder, kLoss, "ijbc_face_tid_mid.txt:1: template' is 'ten'");
  folder.Write("meta/ijbc_face_tid_mid.txt", "");
  ExpectError(folder, absl::StatusCode::kInvalidArgument, "ijbc_face_tid_mid.txt: images' is 0");
  WriteIjbc(folder);
  folder.Write("meta/ijbc_template_pair_label.txt", "10 20 2\n");
  ExpectError(folder, kLoss, "ijbc_template_pair_label.txt:1: label' is '2'; allowed: a whole number, 0 .. 1");
  folder.Write("meta/ijbc_template_pair_label.txt", "10 99 1\n");
  ExpectError(folder, absl::StatusCode::kInvalidArgument, "template' is 99; allowed: the templates that have images");
  WriteIjbc(folder);
  folder.Write("meta/ijbc_1N_gallery_G2.csv", "20,501,c.jpg\n");
  ExpectError(folder, kLoss, "ijbc_1N_gallery_G2.csv:1: header' is '20'");
  folder.Write("meta/ijbc_1N_gallery_G2.csv", "TEMPLATE_ID,SUBJECT_ID\n20,501\n20,502\n");
  ExpectError(folder, kLoss, "ijbc_1N_gallery_G2.csv:3: SUBJECT_ID' is '502'; allowed: 501");
  WriteIjbc(folder);
  std::filesystem::remove(folder.path() + "/loose_crop/4.jpg");
  ExpectError(folder, absl::StatusCode::kNotFound, "loose_crop/4.jpg");
}

TEST(FaceLists, IjbBIsRecognisedByItsNames) {
  const Folder folder;
  WriteIjbc(folder);
  for (const char* name : {"face_tid_mid.txt", "template_pair_label.txt", "1N_probe_mixed.csv"}) {
    std::filesystem::rename(folder.path() + "/meta/ijbc_" + name, folder.path() + "/meta/ijbb_" + name);
  }
  for (const char* number : {"1", "2"}) {
    std::filesystem::rename(StrCat(folder.path(), "/meta/ijbc_1N_gallery_G", number, ".csv"),
                            StrCat(folder.path(), "/meta/ijbb_1N_gallery_S", number, ".csv"));
  }
  EXPECT_TRUE(OpenFaceLists(folder.path()).ok());
}

TEST(PoolTemplates, AveragesFramesOfAVideoBeforeMedia) {
  // Template 0: frames (0, 0) and (2, 4) of medium 7, photo (3, 0); template 2: one photo; template 1: none.
  const std::vector<float> z = {0, 0, 2, 4, 3, 0, 5, 6};
  const std::vector<int32_t> templates = {0, 0, 0, 2};
  const std::vector<int64_t> media = {7, 7, 8, 7};
  EXPECT_THAT(PoolTemplates(z, 2, templates, media, 3), ElementsAre(2, 1, 0, 0, 5, 6));
}

}  // namespace
}  // namespace lightcone
