// manifest.json: round trip, and an error that names field, value and what is allowed for everything that can be wrong.
#include "models/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Manifest Example() {
  Manifest m;
  m.name = "glyphs-new";
  m.architecture = "small-cnn";
  m.width = 0.5;
  m.stem = "cifar";
  m.backbone = "operators.pt";
  m.frozen = true;
  m.dimension = 128;
  m.compatible_prefix = 96;
  m.through_adapter = true;
  m.curvature = 0.7;
  m.clip_radius = 1.2;
  m.rescale = "fixed";
  m.input = {28, 28, 1, {0.25f}, {0.5f}};
  m.method = "hbct";
  m.parent = "glyphs-old";
  m.parent_crc32c = 4'000'000'000u;
  m.classes = 120;
  m.encoder_crc32c = 3'999'999'999u;
  m.training = {"glyphs", "quick",           17, 1904, 7200, 18'446'744'073'709'551'615u, 61.5, 2000.25,
                1.75,     R"({"epochs":17})"};
  return m;
}

json ExampleJson() { return json::parse(ToJson(Example())); }

TEST(Manifest, KeepsEveryFieldThroughJson) {
  const absl::StatusOr<Manifest> parsed = ParseManifest(ToJson(Example()));
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
  EXPECT_EQ(ToJson(*parsed), ToJson(Example()));
  EXPECT_EQ(parsed->training.seed, 18'446'744'073'709'551'615u);
  EXPECT_EQ(parsed->training.config_json, R"({"epochs":17})");
  EXPECT_EQ(parsed->encoder_crc32c, 3'999'999'999u);
}

TEST(Manifest, WithoutACompatiblePrefixComparesWholeVectors) {
  json object = ExampleJson();
  object.erase("compatible_prefix");
  EXPECT_EQ(ParseManifest(object.dump())->compatible_prefix, 0);
  object["compatible_prefix"] = 128;
  EXPECT_EQ(ParseManifest(object.dump())->compatible_prefix, 128);
}

TEST(Manifest, IgnoresFieldsThatItDoesNotKnow) {
  json object = ExampleJson();
  object["from_the_future"] = {{"a", 1}};
  EXPECT_TRUE(ParseManifest(object.dump()).ok());
}

TEST(Manifest, RefusesANewerFormatAndSaysSo) {
  json object = ExampleJson();
  object["format"] = 2;
  const absl::Status status = ParseManifest(object.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'manifest.format' is 2; allowed: 1 .. 1"));
  EXPECT_THAT(MessageOf(status), HasSubstr("newer Lightcone"));
}

struct BadField {
  const char* path;  // JSON pointer
  json value;
  const char* text;  // expected in the message
};

class ManifestBadField : public testing::TestWithParam<BadField> {};

TEST_P(ManifestBadField, IsInvalidArgumentAndNamesTheField) {
  json object = ExampleJson();
  object[json::json_pointer(GetParam().path)] = GetParam().value;
  const absl::Status status = ParseManifest(object.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << MessageOf(status);
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().text));
  EXPECT_THAT(MessageOf(status), HasSubstr("allowed:"));
}

INSTANTIATE_TEST_SUITE_P(
    All, ManifestBadField,
    testing::Values(BadField{"/format", 0, "field 'manifest.format' is 0"},
                    BadField{"/format", "one", "field 'manifest.format' is \"one\""},
                    BadField{"/name", "", "field 'manifest.name'"}, BadField{"/name", 7, "field 'manifest.name' is 7"},
                    BadField{"/dimension", 0, "field 'manifest.dimension' is 0; allowed: 1 .. 65536"},
                    BadField{"/dimension", 1e30, "field 'manifest.dimension'"},
                    BadField{"/dimension", 128.5, "field 'manifest.dimension' is 128.5"},
                    BadField{"/compatible_prefix", 1,
                             "field 'manifest.compatible_prefix' is 1; allowed: 0, or 2 .. 128"},
                    BadField{"/compatible_prefix", 129, "field 'manifest.compatible_prefix' is 129"},
                    BadField{"/compatible_prefix", -2, "field 'manifest.compatible_prefix' is -2"},
                    BadField{"/compatible_prefix", "all", "field 'manifest.compatible_prefix' is \"all\""},
                    BadField{"/stem", "7x7", "field 'manifest.stem' is 7x7; allowed: empty, cifar or imagenet"},
                    BadField{"/backbone", std::string(4097, 'x'), "field 'manifest.backbone' is 4097 characters"},
                    BadField{"/frozen", "yes", "field 'manifest.frozen' is \"yes\""},
                    BadField{"/metric", "hyperbolic", "field 'manifest.metric' is hyperbolic; allowed: lorentz"},
                    BadField{"/curvature", -1, "field 'manifest.curvature' is -1; allowed: above 0"},
                    BadField{"/curvature", "1", "field 'manifest.curvature' is \"1\""},
                    BadField{"/clip_radius", 0, "field 'manifest.clip_radius' is 0"},
                    BadField{"/rescale", "some", "field 'manifest.rescale' is some; allowed: none, fixed or learnable"},
                    BadField{"/input", 3, "field 'manifest.input' is 3"},
                    BadField{"/input/channels", 2, "field 'manifest.input.channels' is 2; allowed: 1 or 3"},
                    BadField{"/input/height", -4, "field 'manifest.input.height' is -4"},
                    BadField{"/input/mean", json::array({0.1, 0.2}), "field 'manifest.input.mean' is 2 values"},
                    BadField{"/input/stddev", json::array({0.0}), "field 'manifest.input.stddev' is 0"},
                    BadField{"/input/stddev", json::array({"x"}), "field 'manifest.input.stddev'"},
                    BadField{"/classes", -1, "field 'manifest.classes' is -1"},
                    BadField{"/encoder_file", "../evil.pt", "field 'manifest.encoder_file' is ../evil.pt"},
                    BadField{"/encoder_crc32c", -1, "field 'manifest.encoder_crc32c' is -1"},
                    BadField{"/encoder_crc32c", 4294967296, "field 'manifest.encoder_crc32c'"},
                    BadField{"/training", json::array(), "field 'manifest.training'"},
                    BadField{"/training/epochs", true, "field 'manifest.training.epochs' is true"}));

TEST(Manifest, RefusesNestingThatCouldExhaustTheStack) {
  const std::string deep =
      "{\"training\": {\"config\": {\"a\": " + std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(ParseManifest(deep + "}}}").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Manifest, NamesAMissingField) {
  for (const char* key : {"format", "name", "architecture", "dimension", "metric", "curvature", "clip_radius", "input",
                          "encoder_file", "encoder_crc32c"}) {
    json object = ExampleJson();
    object.erase(key);
    const absl::Status status = ParseManifest(object.dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(MessageOf(status), HasSubstr("field 'manifest." + std::string(key) + "' is missing"));
  }
}

TEST(Manifest, RefusesTextThatIsNoJsonObject) {
  for (const char* text : {"", "{", "[]", "null", "{\"format\": 1", "\xff\xfe"}) {
    const absl::Status status = ParseManifest(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr("allowed: a JSON object")) << text;
  }
}

TEST(Manifest, IsWrittenToAndReadFromAFolderAndErrorsNameThePath) {
  const std::string folder = testing::TempDir() + "/manifest_test_" + std::to_string(::getpid());
  ASSERT_TRUE(MakeFolders(folder).ok());
  EXPECT_EQ(ReadManifest(folder).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteManifest(folder, Example()).ok());
  EXPECT_EQ(ToJson(*ReadManifest(folder)), ToJson(Example()));
  EXPECT_EQ(ToJson(*ReadManifest(folder + "/manifest.json")), ToJson(Example()));
  std::filesystem::resize_file(folder + "/manifest.json", 40);
  const absl::Status status = ReadManifest(folder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(folder + "/manifest.json"));
  std::filesystem::remove_all(folder);
}

TEST(Manifest, WithABadFieldIsNotWritten) {
  Manifest bad = Example();
  bad.curvature = 0;
  EXPECT_EQ(WriteManifest(testing::TempDir(), bad).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lightcone
