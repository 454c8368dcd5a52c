#include "trainer/data/recordio.h"

#include <cstring>

#include "tests/trainer/paper_files.h"
#include "trainer/data/image_source.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLoss = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;

absl::StatusOr<std::string> ReadFrom(const std::string& file, int64_t offset, int64_t bytes_max = 1 << 20) {
  const auto read = [&](int64_t at, int64_t bytes, char* out) {
    EXPECT_LE(at + bytes, static_cast<int64_t>(file.size()));
    std::memcpy(out, file.data() + at, static_cast<size_t>(bytes));
    return absl::OkStatus();
  };
  return ReadRecord(read, static_cast<int64_t>(file.size()), offset, bytes_max, "x.rec");
}

std::string MessageFrom(const std::string& file, int64_t offset = 0) {
  const auto record = ReadFrom(file, offset);
  EXPECT_EQ(record.status().code(), kLoss);
  return MessageOf(record.status());
}

TEST(RecordIO, ReadsWholeRecordsAndThoseThatTheMagicNumberCutIntoPieces) {
  const std::string magic = Little32(0xced7230a);
  const std::string cut = RecordPart(1, "abcd") + RecordPart(2, "") + RecordPart(3, "efghi");
  const std::string file = RecordPart(0, "hello") + cut;
  EXPECT_EQ(*ReadFrom(file, 0), "hello");
  EXPECT_EQ(*ReadFrom(file, 16), "abcd" + magic + magic + "efghi");
  EXPECT_EQ(*ReadFrom(file, 0, 2), "he");
  EXPECT_EQ(*ReadFrom(file, 16, 6), "abcd" + magic.substr(0, 2));
}

TEST(RecordIO, EveryDefectOfARecordIsNamed) {
  const std::string good = RecordPart(0, "hello");
  EXPECT_THAT(MessageFrom(good, 12), HasSubstr("x.rec: truncated: a record begins at byte 12 of 16"));
  EXPECT_THAT(MessageFrom(good, 4), HasSubstr("no record begins at byte 4"));
  EXPECT_THAT(MessageFrom(good.substr(0, 12)), HasSubstr("has 5 bytes; the file has 4 left"));
  EXPECT_THAT(MessageFrom(RecordPart(2, "abcd")), HasSubstr("part 2 of a record at byte 0; allowed: 0 or 1"));
  EXPECT_THAT(MessageFrom(RecordPart(1, "abcd") + RecordPart(0, "abcd")), HasSubstr("part 0"));
  EXPECT_THAT(MessageFrom(RecordPart(1, "abcd")), HasSubstr("truncated: a record begins at byte 12 of 12"));
}

TEST(RecordIO, ReadsLabelsFromTheHeaderOrFromAList) {
  const auto single = ParseImageRecordHeader(ImageRecord({7}, false, "jpeg"), "x");
  EXPECT_THAT(single->labels, ElementsAre(7));
  EXPECT_EQ(single->bytes, 24u);
  const auto list = ParseImageRecordHeader(ImageRecord({3, 4}, true, "jpeg"), "x");
  EXPECT_THAT(list->labels, ElementsAre(3, 4));
  EXPECT_TRUE(list->listed);
  EXPECT_EQ(list->bytes, 32u);
  const auto message = [](const std::string& record) {
    return MessageOf(ParseImageRecordHeader(record, "x").status());
  };
  EXPECT_THAT(message("short"), HasSubstr("x: truncated: has 5 bytes"));
  EXPECT_THAT(message(ImageRecord({3, 4}, true, "").substr(0, 30)), HasSubstr("2 labels need 32"));
  EXPECT_THAT(message(Little32(65) + std::string(400, '\0')), HasSubstr("field 'flag' is 65; allowed: 0 .. 64"));
}

TEST(RecordIO, TheIndexIsSortedAndItsDefectsNameTheLine) {
  const auto entries = ParseRecordIndex("2\t40\r\n0\t0\n\n1\t16\n", "x.idx");
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[2].offset, 40);
  const auto message = [](const char* text) { return MessageOf(ParseRecordIndex(text, "x.idx").status()); };
  EXPECT_THAT(message("0\t0\n1\tx\n"), HasSubstr("x.idx:2: offset' is 'x'"));
  EXPECT_THAT(message("0\n"), HasSubstr("x.idx:1: line' is '0'; allowed: at least 2 fields"));
  EXPECT_THAT(message("1\t0\n1\t8\n"), HasSubstr("key 1 is there twice"));
  EXPECT_THAT(message("-1\t0\n"), HasSubstr("x.idx:1: key' is '-1'"));
}

// Two identities: five images of the first (with `tail` behind their bytes), two of the second, behind the record that
// describes the file.
RecordFiles SmallMs1m(float second_label = 1, const std::string& tail = "") {
  RecordFiles files;
  files.Add(ImageRecord({8, 10}, true, ""));
  for (int i = 0; i < 5; ++i) files.Add(ImageRecord({0}, false, ColourPng(12, 12, 10 * i, 0, 0) + tail));
  for (int i = 0; i < 2; ++i) files.Add(ImageRecord({second_label, 99}, true, ColourPng(12, 12, 200 + i, 0, 0)));
  files.Add(ImageRecord({1, 6}, true, ""));  // the identities' own records
  files.Add(ImageRecord({6, 8}, true, ""));
  return files;
}

void WriteMs1m(const Folder& folder, const RecordFiles& files) {
  folder.Write("train.rec", files.rec);
  folder.Write("train.idx", files.idx);
}

TEST(Ms1m, ReadsImagesAndSetsTheLastOnesOfAnIdentityAside) {
  const Folder folder;
  WriteMs1m(folder, SmallMs1m());
  for (const int64_t bytes_in_memory : {int64_t{0}, kBytesInMemoryMax}) {
    const auto set = OpenDataset("ms1m@16:" + folder.path(), 1, bytes_in_memory);
    ASSERT_TRUE(set.ok()) << MessageOf(set.status());
    EXPECT_EQ(set->train.in_memory(), bytes_in_memory > 0);
    EXPECT_THAT(set->train.labels, ElementsAre(0, 0, 0, 1, 1));
    EXPECT_THAT(set->test.labels, ElementsAre(0, 0));
    std::vector<uint8_t> pixels(16 * 16 * 3);
    ASSERT_TRUE(set->train.Read(4, pixels.data()).ok());
    EXPECT_EQ(pixels[0], 201);
    ASSERT_TRUE(set->test.Read(1, pixels.data()).ok());
    EXPECT_EQ(pixels[0], 40);
  }
}

TEST(Ms1m, AnotherImageOfTheSameSizeIsAnotherSet) {
  const Folder folder;
  const auto checksum = [&](const char* tail) {
    WriteMs1m(folder, SmallMs1m(1, tail));
    return PixelChecksum(OpenDataset("ms1m@16:" + folder.path(), 1, 0)->train);
  };
  const uint32_t before = checksum("tail");
  EXPECT_EQ(checksum("tail"), before);
  EXPECT_NE(checksum("tale"), before);
}

TEST(Ms1m, EveryDefectNamesTheFileAndTheRecord) {
  const Folder folder;
  const std::string name = "ms1m@16:" + folder.path();
  ExpectOpenError(name, kMissing, {"train.idx"});
  const RecordFiles good = SmallMs1m();
  folder.Write("train.idx", good.idx);
  ExpectOpenError(name, kMissing, {"train.rec"});
  WriteMs1m(folder, SmallMs1m(1.5f));
  ExpectOpenError(name, kLoss, {"train.rec, record 6", "field 'label' is 1.5; allowed: a whole number, 0 .. 16777216"});
  WriteMs1m(folder, SmallMs1m(-1));
  ExpectOpenError(name, kLoss, {"train.rec, record 6", "field 'label' is -1"});
  WriteMs1m(folder, good);
  folder.Write("train.rec", good.rec.substr(0, good.rec.size() / 2));
  ExpectOpenError(name, kLoss, {"train.rec, record", "truncated"});
  WriteMs1m(folder, good);
  folder.Write("train.idx", good.idx.substr(0, good.idx.find("\n4\t") + 1));
  ExpectOpenError(name, kLoss, {"train.rec, record 0", "says that there are 7 images; the index has 3"});
  RecordFiles damaged = good;
  const std::string image = ColourPng(12, 12, 0, 0, 0);
  damaged.rec.replace(damaged.rec.find(image), 8, 8, 'x');
  WriteMs1m(folder, damaged);
  ExpectOpenError(name, kInvalid, {"train.rec, record 1", "a PNG, JPEG or WebP file"});
}

}  // namespace
}  // namespace lightcone
