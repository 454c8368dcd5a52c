// The checkpoint container: round trip, and no damage goes unseen.
#include "models/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

Checkpoint Example() {
  Checkpoint checkpoint;
  checkpoint.sections["network"] = std::string("weights\0more", 12);
  checkpoint.sections["progress"] = "{\"step\": 3}";
  checkpoint.sections["empty"] = "";
  return checkpoint;
}

TEST(Checkpoint, GivesItsSectionsBack) {
  const absl::StatusOr<Checkpoint> parsed = ParseCheckpoint(EncodeCheckpoint(Example()));
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
  EXPECT_EQ(parsed->sections, Example().sections);
  EXPECT_EQ(*parsed->Section("progress"), "{\"step\": 3}");
  EXPECT_EQ(parsed->Section("nothing").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(parsed->Section("nothing").status()), HasSubstr("no section 'nothing'"));
}

TEST(Checkpoint, TruncatedAnywhereIsDataLoss) {
  const std::string bytes = EncodeCheckpoint(Example());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const absl::Status status = ParseCheckpoint(bytes.substr(0, length)).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
  }
  EXPECT_THAT(MessageOf(ParseCheckpoint(bytes.substr(0, bytes.size() - 1)).status()), HasSubstr("truncated"));
}

TEST(Checkpoint, WithAnyBitFlippedIsRefused) {
  const std::string bytes = EncodeCheckpoint(Example());
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    const absl::StatusCode code = ParseCheckpoint(damaged).status().code();
    ASSERT_TRUE(code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kFailedPrecondition) << i;
  }
}

TEST(Checkpoint, NamesTheDamagedSection) {
  std::string bytes = EncodeCheckpoint(Example());
  bytes.back() = '?';  // sections lie in the order of their names: the last is "progress"
  const absl::Status status = ParseCheckpoint(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("section 'progress' fails its checksum"));
}

TEST(Checkpoint, OfANewerFormatIsFailedPrecondition) {
  std::string bytes = EncodeCheckpoint(Example());
  bytes[8] = 9;
  const absl::Status status = ParseCheckpoint(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'checkpoint.format' is 9"));
}

TEST(Checkpoint, WithBytesBehindItsEndIsDataLoss) {
  const absl::Status status = ParseCheckpoint(EncodeCheckpoint(Example()) + "x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("1 bytes behind"));
}

TEST(Checkpoint, FileErrorsNameThePath) {
  const std::string path = testing::TempDir() + "/checkpoint_test_" + std::to_string(::getpid());
  EXPECT_EQ(ReadCheckpoint(path).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteCheckpoint(path, Example()).ok());
  EXPECT_EQ(ReadCheckpoint(path)->sections, Example().sections);
  std::filesystem::resize_file(path, 50);
  const absl::Status status = ReadCheckpoint(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr(path));
  std::filesystem::remove(path);
}

TEST(Checkpoint, RefusesASectionWithoutAName) {
  Checkpoint checkpoint;
  checkpoint.sections[""] = "x";
  EXPECT_THAT(MessageOf(WriteCheckpoint(testing::TempDir() + "/unused", checkpoint)),
              HasSubstr("field 'checkpoint.section.name' is 0 bytes; allowed: 1 .. 255 bytes"));
}

}  // namespace
}  // namespace lightcone
