// The failure head's file: round trip, no damage goes unseen, and errors that say which field.
#include "models/failure_head_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/files.h"
#include "base/status.h"
#include "models/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

FailureHeadFile SomeHeadFile() {
  FailureHeadFile file;
  file.from = "glyphs-1";
  file.to = "gl\u00fdphs-2";
  for (size_t f = 0; f < kHeadFeatures; ++f) {
    file.head.mean[f] = 0.1 * static_cast<double>(f) - 0.3;
    file.head.deviation[f] = 1.0 / (1.0 + static_cast<double>(f));
  }
  for (size_t t = 0; t < FailureHead::kTerms; ++t) file.head.weights[t] = 1.0 / (3.0 + static_cast<double>(t));
  file.head.bias = -1.25;
  file.means = {2, {1, 0, 0.6f, 0.8f, 0, 0}};
  file.images = 100;
  file.wrong = 20;
  return file;
}

// The file with its header changed, all checksums right.
std::string WithHeader(const std::function<void(nlohmann::json&)>& change) {
  Checkpoint checkpoint = ParseCheckpoint(EncodeFailureHead(SomeHeadFile()).value()).value();
  nlohmann::json header = nlohmann::json::parse(checkpoint.sections["failure_head"]);
  change(header);
  checkpoint.sections["failure_head"] = header.dump();
  return EncodeCheckpoint(checkpoint);
}

std::string ErrorWith(const std::function<void(nlohmann::json&)>& change) {
  const absl::StatusOr<FailureHeadFile> parsed = ParseFailureHead(WithHeader(change));
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << parsed.status();
  return MessageOf(parsed.status());
}

TEST(FailureHeadFile, ComesBackAsItWas) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFailureHead(folder / "f.head", SomeHeadFile()).ok());
  const absl::StatusOr<FailureHeadFile> back = ReadFailureHead(folder / "f.head");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, SomeHeadFile());
  EXPECT_TRUE(absl::IsNotFound(ReadFailureHead(folder / "none").status()));
}

TEST(FailureHeadFile, EveryFlippedByteAndEveryCutIsSeen) {
  const std::string bytes = EncodeFailureHead(SomeHeadFile()).value();
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_FALSE(ParseFailureHead(damaged).ok()) << i;
    EXPECT_FALSE(ParseFailureHead(bytes.substr(0, i)).ok()) << i;
  }
}

TEST(FailureHeadFile, WrongFieldsAreNamed) {
  using Json = nlohmann::json;
  EXPECT_THAT(ErrorWith([](Json& h) { h.erase("weights"); }), HasSubstr("failure_head.weights"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["weights"] = {1, 2}; }), HasSubstr("2 numbers"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["mean"] = "much"; }), HasSubstr("failure_head.mean"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["deviation"][3] = 0; }), HasSubstr("failure_head.deviation"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["dimension"] = 4; }), HasSubstr("failure_head.class_means"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["dimension"] = -1; }), HasSubstr("failure_head.dimension"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["wrong"] = 101; }), HasSubstr("failure_head.wrong"));
  EXPECT_THAT(ErrorWith([](Json& h) { h["format"] = 0; }), HasSubstr("failure_head.format"));
  const auto newer = ParseFailureHead(WithHeader([](Json& h) { h["format"] = 2; }));
  EXPECT_TRUE(absl::IsFailedPrecondition(newer.status())) << newer.status();
  EXPECT_TRUE(absl::IsDataLoss(ParseFailureHead(EncodeCheckpoint({{{"adapter", "{}"}}})).status()));
}

TEST(FailureHeadFile, NothingThatIsNotFiniteIsWritten) {
  FailureHeadFile file = SomeHeadFile();
  file.means.rows[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeFailureHead(file).status()));
  file = SomeHeadFile();
  file.head.weights[7] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(MessageOf(EncodeFailureHead(file).status()), HasSubstr("failure_head.weights"));
  file = SomeHeadFile();
  file.means.rows.clear();
  EXPECT_THAT(MessageOf(EncodeFailureHead(file).status()), HasSubstr("class_means"));
  file = SomeHeadFile();
  file.to = std::string(129, 'x');
  EXPECT_THAT(MessageOf(EncodeFailureHead(file).status()), HasSubstr("failure_head.to"));
}

}  // namespace
}  // namespace lightcone
