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
using testing::Not;

AdapterFile Example(AdapterKind kind = AdapterKind::kResidualMlp, AdapterHead head = AdapterHead::kNone) {
  std::mt19937_64 random(5);
  AdapterFile file;
  file.from = "glyphs-1";
  file.to = "gl\u00fdphs-2";
  file.spec = test::RandomAdapter(random, kind, 5, 5, 2, head);
  file.spec.direction = AdapterDirection::kQuery;
  file.fit = {"reg+rel", 900, 100, 1500, 0.31, 0.44, 1e-4, 0.2, std::numeric_limits<uint64_t>::max(), "", {}};
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
  for (const AdapterKind kind : {AdapterKind::kProcrustes, AdapterKind::kAffine, AdapterKind::kLowRankAffine,
                                 AdapterKind::kResidualMlp, AdapterKind::kKernel}) {
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

TEST(AdapterFile, KeepsWhatItWasFittedBetweenAndIsReadWithoutIt) {
  AdapterFile file = Example();
  file.from_crc32c = 1;
  file.to_crc32c = 3'999'999'999u;
  file.source = Space{Metric::kLorentz, 5, 0.7, 1.3};
  EXPECT_TRUE(ParseAdapter(EncodeAdapter(file).value()).value() == file);
  const AdapterFile old = ParseAdapter(EncodeAdapter(Example()).value()).value();
  EXPECT_TRUE(old == Example());
  EXPECT_THAT(AdapterHeaderJson(old), Not(HasSubstr("crc32c"))) << "as files were before";
  EXPECT_THAT(AdapterHeaderJson(old), Not(HasSubstr("\"source\"")));
  const auto error = [&](const std::function<void(nlohmann::json&)>& change) {
    return MessageOf(ParseAdapter(WithHeader(file, change)).status());
  };
  using Json = nlohmann::json;
  EXPECT_THAT(error([](Json& h) { h["from_crc32c"] = -1; }), HasSubstr("'adapter.from_crc32c' is -1"));
  EXPECT_THAT(error([](Json& h) { h["to_crc32c"] = "x"; }), HasSubstr("'adapter.to_crc32c' is \"x\""));
  EXPECT_THAT(error([](Json& h) { h["source"] = 7; }), HasSubstr("'adapter.source' is 7"));
  EXPECT_THAT(error([](Json& h) { h["source"]["metric"] = "l2"; }), HasSubstr("'adapter.source.metric' is 'l2'"));
  EXPECT_THAT(error([](Json& h) { h["source"]["clip_radius"] = 0; }), HasSubstr("'adapter.source.clip_radius' is 0"));
}

TEST(AdapterFile, IsRefusedBetweenOtherModelsAsFarAsBothAreKnown) {
  AdapterFile file = Example();
  file.from_crc32c = 17;
  file.to_crc32c = 23;
  file.source = Space{Metric::kLorentz, 5, 0.7, 1.3};
  const AdapterEnd from{"generation 1", 17, *file.source}, to{"generation 2", 23, file.spec.target};
  const auto error = [&](AdapterEnd changed_from, AdapterEnd changed_to) {
    const absl::Status status = CheckFittedBetween(file, changed_from, changed_to);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  const auto with_crc32c = [](AdapterEnd end, uint32_t crc32c) {
    end.encoder_crc32c = crc32c;
    return end;
  };
  EXPECT_TRUE(CheckFittedBetween(file, from, to).ok());
  EXPECT_THAT(error(with_crc32c(from, 18), to),
              HasSubstr("'adapter.from_crc32c' is 17; allowed: 18, of the encoder of generation 1"));
  EXPECT_THAT(error(from, with_crc32c(to, 24)),
              HasSubstr("'adapter.to_crc32c' is 23; allowed: 24, of the encoder of generation 2"));
  AdapterEnd other = from;
  other.space.clip_radius = 2;
  EXPECT_THAT(error(other, to), HasSubstr("'adapter.source.clip_radius' is 1.3; allowed: 2, of generation 1"));
  other.space = {Metric::kLorentz, 5, 1, 1.3};
  EXPECT_THAT(error(other, to), HasSubstr("'adapter.source.curvature' is 0.7; allowed: 1"));
  other.space = {Metric::kCosine, 5, 0.7, 1.3};
  EXPECT_THAT(error(other, to), HasSubstr("'adapter.source.metric' is lorentz; allowed: cosine"));
  EXPECT_TRUE(CheckFittedBetween(file, with_crc32c(from, 0), with_crc32c(to, 0)).ok()) << "encoders are not known";
  other.space = {Metric::kCosine, 5, 2, 2};
  file.source = Space{Metric::kCosine, 5, 1, 1};
  EXPECT_TRUE(CheckFittedBetween(file, other, to).ok()) << "a cosine has neither curvature nor clip";
  EXPECT_TRUE(CheckFittedBetween(Example(), with_crc32c(other, 99), with_crc32c(to, 98)).ok()) << "an older file";
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
  const absl::Status status = ParseAdapter(WithHeader(Example(), [](nlohmann::json& h) { h["format"] = 3; })).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'adapter.format' is 3; allowed: 1 .. 2"));
}

TEST(AdapterFile, OfAnAdapterThatTakesUnitRowsIsNothingForAnOlderReader) {
  const auto format = [](const AdapterFile& file) {
    return nlohmann::json::parse(AdapterHeaderJson(file))["format"].get<int>();
  };
  AdapterFile file = Example();
  EXPECT_EQ(format(file), 1);
  EXPECT_FALSE(ParseAdapter(EncodeAdapter(file).value())->spec.unit_input);
  file.spec.unit_input = true;
  EXPECT_EQ(format(file), 2);
  EXPECT_TRUE(ParseAdapter(EncodeAdapter(file).value()).value() == file);
  EXPECT_THAT(MessageOf(ParseAdapter(WithHeader(file, [](nlohmann::json& h) { h["unit_input"] = 1; })).status()),
              HasSubstr("'adapter.unit_input' is 1"));
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
  EXPECT_THAT(error([](Json& h) { h["fit"]["compared"] = 7; }), HasSubstr("'adapter.fit.compared' is 7"));
  EXPECT_THAT(error([](Json& h) {
                h["fit"]["compared"] = {{{"map", "kernel"}}};
              }),
              HasSubstr("'adapter.fit.compared[0].held_out_loss' is missing"));
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
