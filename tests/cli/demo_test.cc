// The demo without its trainings: what it tells, and what it refuses before it begins.
#include "cli/demo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/status.h"
#include "models/image.h"
#include "tests/cli/run_program.h"
#include "tests/trainer/data_files.h"

namespace lightcone::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> KeysOf(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

class DemoTest : public testing::Test {
 protected:
  // The error of a demo in the folder "demo", whose progress nobody reads.
  absl::Status Run(const std::string& data = "glyphs") {
    std::FILE* out = std::tmpfile();
    const absl::Status status = RunDemo({.data = data, .folder = demo_, .binary = Binary()}, out).status();
    std::fclose(out);
    return status;
  }

  TemporaryFolder scratch_;
  const std::string demo_ = scratch_ / "demo";
};

TEST_F(DemoTest, ItsJsonHasTheseKeys) {
  DemoResult result;
  result.dataset = "glyphs";
  result.rows = {{"new", "old", 0.5, 0.75, 0.25, "Search"}};
  result.p_com_cmc1 = 0.5;
  result.reembedded_items = 0;
  result.restart_identical = true;
  result.adapters = {{"new", "reg+sup", 9000, 12.5, 0.6, 0.7}};
  result.config_json = R"({"recipe":"quick"})";
  result.backfill_curve = {{0, 0.5, 0.25}, {1, 0.75, 0.5}};
  const std::string text = DemoJson(result);
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << text;
  EXPECT_THAT(KeysOf(json), ElementsAre("dataset", "seed", "rows", "p_com", "p_up", "adapters", "reembedded_items",
                                        "backfill_order", "backfill_curve", "backfill_curve_random", "activation_ms",
                                        "rollback_ms", "live_after_training_ms", "restart_identical", "train_seconds",
                                        "total_seconds", "uncertainty_auroc", "classes", "classes_old", "train_images",
                                        "gallery_items", "queries", "config"));
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_THAT(KeysOf(json["rows"][0]), ElementsAre("query", "gallery", "cmc1", "cmc5", "map", "measured_by"));
  EXPECT_EQ(json["rows"][0]["cmc5"], 0.75);
  EXPECT_THAT(KeysOf(json["p_com"]), ElementsAre("cmc1", "map"));
  EXPECT_THAT(KeysOf(json["p_up"]), ElementsAre("cmc1", "map"));
  EXPECT_THAT(KeysOf(json["uncertainty_auroc"]), ElementsAre("pre_clip", "clipped"));
  EXPECT_EQ(json["p_com"]["cmc1"], 0.5);
  EXPECT_EQ(json["restart_identical"], true);
  ASSERT_EQ(json["adapters"].size(), 1u);
  EXPECT_THAT(KeysOf(json["adapters"][0]), ElementsAre("to", "loss", "pairs", "seconds", "p_com", "p_up"));
  EXPECT_EQ(json["adapters"][0]["p_com"]["map"], 0.7);
  ASSERT_EQ(json["backfill_curve"].size(), 2u);
  EXPECT_THAT(KeysOf(json["backfill_curve"][1]), ElementsAre("share", "cmc1", "map"));
  EXPECT_EQ(json["backfill_curve"][1]["map"], 0.5);
  EXPECT_EQ(json["config"]["recipe"], "quick");
}

TEST_F(DemoTest, ItsTableExplainsEveryRow) {
  DemoResult result;
  result.rows = {{"old", "old", 0.5, 0.75, 0.25, ""}, {"lightcone+adapter", "old", 0.7, 0.8, 0.35, ""}};
  result.adapters = {{"lightcone", "reg+sup", 9000, 12.5, 0.6, 0.7, 0.1, 0.2}};
  const std::string table = DemoTable(result);
  EXPECT_THAT(table, HasSubstr("  old                  old            0.500   0.750   0.250  before the upgrade\n"));
  EXPECT_THAT(table,
              HasSubstr("  lightcone+adapter    old            0.700   0.800   0.350  method lightcone: pulled early"));
  EXPECT_THAT(table,
              HasSubstr("of the lightcone model behind an adapter, fitted in 12 s:       CMC@1 +0.600, mAP +0.700\n"));
  EXPECT_THAT(table,
              HasSubstr("of the lightcone model:                                         CMC@1 +0.100, mAP +0.200\n"));
  EXPECT_THAT(table, Not(HasSubstr("embedded anew"))) << "without a backfill";
}

TEST_F(DemoTest, ItsTableShowsBothOrdersOfTheBackfill) {
  DemoResult result;
  result.backfill_order = "a failure head, worst first";
  result.backfill_curve = {{0, 0.5, 0.25}, {0.5, 0.6, 0.4}, {1, 0.75, 0.5}};
  result.backfill_curve_random = {{0, 0.5, 0.25}, {0.5, 0.6, 0.35}, {1, 0.75, 0.5}};
  result.rollback_ms = 1.25;
  const std::string table = DemoTable(result);
  EXPECT_THAT(table, HasSubstr("  mAP while the gallery is embedded anew     0 %    50 %   100 %\n"));
  EXPECT_THAT(table, HasSubstr("  by a failure head, worst first           0.250   0.400   0.500\n"));
  EXPECT_THAT(table, HasSubstr("  in a random order                        0.250   0.350   0.500\n"));
  EXPECT_THAT(table, HasSubstr("a rollback takes 1.2 ms"));
}

TEST_F(DemoTest, FewerThanFourClassesAreRefused) {
  const testing_data::Folder set;
  set.Write("train-images-idx3-ubyte", testing_data::IdxImages(4, 28, 28));
  set.Write("train-labels-idx1-ubyte", testing_data::IdxLabels({3, 9, 3, 9}));
  set.Write("t10k-images-idx3-ubyte", testing_data::IdxImages(2, 28, 28));
  set.Write("t10k-labels-idx1-ubyte", testing_data::IdxLabels({9, 3}));
  const std::string data = "idx:" + set.path();
  const absl::Status status = Run(data);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("field 'data' is " + data + " with 2 classes; allowed: 4 classes or more"));
  EXPECT_TRUE(std::filesystem::exists(demo_ + "/LIGHTCONE-DEMO")) << "the folder is the demo's from now on";
  EXPECT_EQ(Run(data).code(), absl::StatusCode::kInvalidArgument) << "and is taken again";
}

TEST_F(DemoTest, AFolderThatIsNotItsOwnIsLeftAlone) {
  std::filesystem::create_directories(demo_ + "/server");
  ASSERT_TRUE(WriteFileAtomically(demo_ + "/server/thesis.tex", "years of work").ok());
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("'" + demo_ + "' is not a folder of lightcone demo"));
  EXPECT_EQ(ReadFile(demo_ + "/server/thesis.tex").value(), "years of work");
  EXPECT_FALSE(std::filesystem::exists(demo_ + "/LIGHTCONE-DEMO"));
}

TEST_F(DemoTest, AnUnknownDataSetIsRefusedWithThoseThereAre) {
  EXPECT_THAT(MessageOf(Run("pictures")), HasSubstr("glyphs"));
}

}  // namespace
}  // namespace lightcone::cli
