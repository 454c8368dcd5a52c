// The adapter's file: round trip, no damage goes unseen, and errors that say which field.
#include "models/adapter_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "base/files.h"
#include "base/status.h"
#include "models/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/geometry/random_adapter.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

AdapterFile Example(AdapterKind kind = AdapterKind::kResidualMlp, AdapterHead head = AdapterHead::kNone) {
  std::mt19937_64 random(5);
  AdapterFile file;
  file.from = "glyphs-1";
  file.to = "gl\u00fdphs-2";
  file.spec = test::RandomAdapter(random, kind, 5, 5, 2, head);
  file.spec.direction = AdapterDirection::kQuery;
  file.fit = {"reg+rel", 900, 100, 1500, 0.31, 0.44, 1e-4, 0.2, std::numeric_limits<uint64_t>::max()};
  return file;
}

// A file with its header changed, all checksums right.
std::string WithHeader(const AdapterFile& file, const std::function<void(nlohmann::json&)>& change) {
  Checkpoint checkpoint = ParseCheckpoint(EncodeAdapter(file).value()).value();
  nlohmann::json header = nlohmann::json::parse(checkpoint.sections["adapter"]);
  change(header);
  checkpoint.sections["adapter"] = header.dump();
  return EncodeCheckpoint(checkpoint);
}

TEST(AdapterFile, GivesEveryKindBackBitForBit) {
  for (const AdapterKind kind :
       {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine, AdapterKind::kResidualMlp,
        AdapterKind::kKernel}) {
    const AdapterFile file = Example(kind, AdapterHead::kInput);
    const absl::StatusOr<std::string> bytes = EncodeAdapter(file);
    ASSERT_TRUE(bytes.ok()) << MessageOf(bytes.status());
    const absl::StatusOr<AdapterFile> parsed = ParseAdapter(*bytes);
    ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
    EXPECT_TRUE(*parsed == file) << AdapterHeaderJson(*parsed);
    EXPECT_EQ(EncodeAdapter(*parsed).value(), *bytes);
  }
  EXPECT_TRUE(
      ParseAdapter(EncodeAdapter(Example(AdapterKind::kResidualMlp, AdapterHead::kHidden)).value())->spec.head ==
      AdapterHead::kHidden);
}

TEST(AdapterFile, TruncatedAnywhereOrWithAnyBitFlippedIsRefused) {
  const std::string bytes = EncodeAdapter(Example()).value();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_EQ(ParseAdapter(bytes.substr(0, length)).status().code(), absl::StatusCode::kDataLoss) << length;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    ASSERT_FALSE(ParseAdapter(damaged).ok()) << i;
  }
}

TEST(AdapterFile, OfANewerFormatIsFailedPrecondition) {
  const absl::Status status = ParseAdapter(WithHeader(Example(), [](nlohmann::json& h) { h["format"] = 2; })).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'adapter.format' is 2; allowed: 1 .. 1"));
}

TEST(AdapterFile, NamesWhatIsWrongInTheHeader) {
  const auto error = [](const std::function<void(nlohmann::json&)>& change) {
    const absl::Status status = ParseAdapter(WithHeader(Example(), change)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  using Json = nlohmann::json;
  EXPECT_THAT(error([](Json& h) { h.erase("format"); }), HasSubstr("'adapter.format' is missing"));
  EXPECT_THAT(error([](Json& h) { h["format"] = 0; }), HasSubstr("'adapter.format' is 0"));
  EXPECT_THAT(error([](Json& h) { h["map"] = "mlp"; }), HasSubstr("'map' is 'mlp'"));
  EXPECT_THAT(error([](Json& h) { h["direction"] = 3; }), HasSubstr("'adapter.direction' is 3"));
  EXPECT_THAT(error([](Json& h) { h["head"] = "both"; }), HasSubstr("'adapter.head' is 'both'"));
  EXPECT_THAT(error([](Json& h) { h["target"] = 7; }), HasSubstr("'adapter.target' is 7"));
  EXPECT_THAT(error([](Json& h) { h["target"]["metric"] = "l2"; }), HasSubstr("'adapter.target.metric' is 'l2'"));
  EXPECT_THAT(error([](Json& h) { h["target"]["clip_radius"] = 0; }), HasSubstr("'adapter.target.clip_radius' is 0"));
  EXPECT_THAT(error([](Json& h) { h["input_dimension"] = 6; }), HasSubstr("'adapter.linear' is 25 numbers"));
  EXPECT_THAT(error([](Json& h) { h["width"] = 70000; }), HasSubstr("'adapter.width' is 70000"));
  EXPECT_THAT(error([](Json& h) { h["fit"] = "well"; }), HasSubstr("'adapter.fit'"));
  EXPECT_THAT(error([](Json& h) { h["fit"]["pairs"] = -1; }), HasSubstr("'adapter.fit.pairs' is -1"));
  EXPECT_THAT(error([](Json& h) { h["from"] = std::string(129, 'a'); }), HasSubstr("'adapter.from' is 129 bytes"));
}

TEST(AdapterFile, AnotherCheckpointIsNotTakenForOne) {
  Checkpoint checkpoint;
  checkpoint.sections["network"] = "weights";
  const absl::Status status = ParseAdapter(EncodeCheckpoint(checkpoint)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("not an adapter"));
}

TEST(AdapterFile, AMatrixOfHalfANumberIsRefused) {
  Checkpoint checkpoint = ParseCheckpoint(EncodeAdapter(Example()).value()).value();
  checkpoint.sections["hidden"].pop_back();
  EXPECT_THAT(MessageOf(ParseAdapter(EncodeCheckpoint(checkpoint)).status()),
              HasSubstr("'adapter.hidden' is 39 bytes"));
}

TEST(AdapterFile, IsNotWrittenWhenItWouldNotBeRead) {
  AdapterFile file = Example();
  file.fit.held_out_error = std::numeric_limits<double>::infinity();
  EXPECT_THAT(MessageOf(EncodeAdapter(file).status()), HasSubstr("'adapter.fit.held_out_error' is inf"));
  file = Example();
  file.to = "\xff";
  EXPECT_THAT(MessageOf(EncodeAdapter(file).status()), HasSubstr("'adapter.to'"));
  file = Example();
  file.spec.offset.clear();
  EXPECT_THAT(MessageOf(EncodeAdapter(file).status()), HasSubstr("'adapter.offset'"));
}

TEST(AdapterFile, FileErrorsNameThePath) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.adapter";
  EXPECT_EQ(ReadAdapter(path).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteAdapter(path, Example()).ok());
  EXPECT_TRUE(ReadAdapter(path).value() == Example());
  ASSERT_TRUE(WriteFileAtomically(path, "x").ok());
  EXPECT_THAT(MessageOf(ReadAdapter(path).status()), HasSubstr(path));
}

}  // namespace
}  // namespace lightcone
