// The demo: what it tells, what it refuses before it begins, and the whole of it on a tiny set.
#include "cli/demo/demo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/status.h"
#include "cli/child_server.h"
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
  const std::string page = DemoHtml(result);
  EXPECT_THAT(page, HasSubstr(">0.350</text>")) << "the orders differ in the third decimal";
  EXPECT_THAT(page, HasSubstr(">0.60</text>"));
  EXPECT_THAT(page.substr(page.find("The gallery embedded anew")), Not(HasSubstr(">1.00</text>")));
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

TEST_F(DemoTest, ClassesWithoutTrainingImagesDoNotCount) {
  const testing_data::Folder set;
  set.Write("train-images-idx3-ubyte", testing_data::IdxImages(6, 28, 28));
  set.Write("train-labels-idx1-ubyte", testing_data::IdxLabels({0, 1, 2, 0, 1, 2}));
  set.Write("t10k-images-idx3-ubyte", testing_data::IdxImages(6, 28, 28));
  set.Write("t10k-labels-idx1-ubyte", testing_data::IdxLabels({3, 4, 5, 3, 4, 5}));
  EXPECT_THAT(MessageOf(Run("idx:" + set.path())), HasSubstr("with 3 classes; allowed: 4 classes or more to train on"));
}

TEST_F(DemoTest, ASetWithAProtocolOfItsOwnIsRefused) {
  const testing_data::Folder set;
  const std::string picture = testing_data::GreyPng(32, 16, 7);
  for (const char* file : {"0002_c1s1_000451_03.jpg", "0002_c2s1_000451_03.jpg", "0007_c3s1_000451_03.jpg"}) {
    set.Write(StrCat("bounding_box_train/", file), picture);
  }
  for (const char* file : {"0003_c1s3_000551_00.jpg", "0003_c6s1_000551_00.jpg"}) {
    set.Write(StrCat("bounding_box_test/", file), picture);
  }
  set.Write("query/0003_c1s1_000551_00.jpg", picture);
  const std::string data = "market1501@32:" + set.path();
  EXPECT_THAT(MessageOf(Run(data)), HasSubstr("field 'data' is " + data + "; allowed: a set without a protocol"));
}

TEST_F(DemoTest, WhatItCannotBeginLeavesTheEarlierDemoAlone) {
  ASSERT_TRUE(MakeFolders(demo_ + "/old").ok());
  ASSERT_TRUE(WriteFileAtomically(demo_ + "/LIGHTCONE-DEMO", "an earlier one").ok());
  ASSERT_TRUE(WriteFileAtomically(demo_ + "/old/encoder.pt", "an hour of work").ok());
  EXPECT_EQ(Run("cifar100:" + scratch_ / "typo").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(demo_ + "/old/encoder.pt").value(), "an hour of work");

  auto server = ChildServer::Start(Binary(), demo_ + "/server");
  ASSERT_TRUE(server.ok()) << MessageOf(server.status());
  const absl::Status served = Run();
  EXPECT_EQ(served.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(served), HasSubstr(StrCat("process ", (*server)->pid(), " serves '", demo_, "/server'")));
  EXPECT_EQ(ReadFile(demo_ + "/old/encoder.pt").value(), "an hour of work");
  EXPECT_EQ((*server)->Terminate(), 0) << "its store is whole";
  EXPECT_EQ(Run("cifar100:" + scratch_ / "typo").code(), absl::StatusCode::kNotFound) << "nobody serves there any more";
}

TEST_F(DemoTest, AGainThatIsUndefinedIsADash) {
  DemoResult result;
  result.dataset = "cifar100:/" + std::string(2000, 'x');
  result.rows = {{"old", "old", 0.5, 0.75, 0.25, ""}};
  result.p_com_cmc1 = result.p_com_map = std::nan("");
  result.p_up_cmc1 = 0.25;
  result.adapters = {{"new", "reg+sup", 9000, 12.5, std::nan(""), 0.7}};
  result.events = {{"open data set " + result.dataset, 0, 1}};
  result.total_seconds = 2;
  const std::string table = DemoTable(result), page = DemoHtml(result);
  EXPECT_THAT(table, Not(HasSubstr("nan")));
  EXPECT_THAT(table, HasSubstr("without backfilling): CMC@1 -, mAP -\n"));
  EXPECT_THAT(table, HasSubstr("CMC@1 -, mAP +0.700\n"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, HasSubstr("P_com: CMC@1 -, mAP - ("));
  EXPECT_THAT(page, HasSubstr("P_up: CMC@1 +0.250, mAP +0.000"));
  EXPECT_THAT(page, HasSubstr("<b>-</b>of the possible gain"));
  EXPECT_THAT(page, HasSubstr(result.events[0].what + "</text><rect")) << "a long path is whole";
}

// Four classes with training images and two without.
TEST_F(DemoTest, TheWholeOfItRunsOnATinySet) {
  const testing_data::Folder set;
  std::vector<int> train, test;
  for (int i = 0; i < 48; ++i) train.push_back(i % 4);
  for (int i = 0; i < 48; ++i) test.push_back(i % 6);
  set.Write("train-images-idx3-ubyte", testing_data::IdxImages(48, 16, 16));
  set.Write("train-labels-idx1-ubyte", testing_data::IdxLabels(train));
  set.Write("t10k-images-idx3-ubyte", testing_data::IdxImages(48, 16, 16));
  set.Write("t10k-labels-idx1-ubyte", testing_data::IdxLabels(test));
  ASSERT_TRUE(MakeFolders(demo_ + "/server").ok());
  ASSERT_TRUE(WriteFileAtomically(demo_ + "/LIGHTCONE-DEMO", "an earlier one").ok());
  ASSERT_TRUE(WriteFileAtomically(demo_ + "/server/stale", "an earlier one's").ok());

  // A thread more has nothing to do on so small a set.
  const Outcome outcome = RunBinary(scratch_, {"demo", "--data", "idx:" + set.path(), "--dir", demo_, "--json", "-"},
                                    {"OMP_NUM_THREADS=1"}, absl::Minutes(10));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  std::map<std::string, double> map_of;
  std::vector<std::string> rows;
  for (const auto& row : json["rows"]) {
    rows.push_back(StrCat(row["query"].get<std::string>(), " on ", row["gallery"].get<std::string>()));
    map_of[rows.back()] = row["map"];
  }
  EXPECT_THAT(rows, ElementsAre("old on old", "independent on old", "new on old", "independent+adapter on old",
                                "new+adapter on old", "lightcone+adapter on old", "independent on independent",
                                "new on new", "lightcone on lightcone"));
  EXPECT_EQ(json["classes"], 6);
  EXPECT_EQ(json["classes_old"], 2) << "half of the four that can be trained on";
  EXPECT_EQ(json["reembedded_items"], 0);
  EXPECT_EQ(json["restart_identical"], true);
  for (const char* name : {"backfill_curve", "backfill_curve_random"}) {
    const auto& curve = json[name];
    std::vector<double> shares;
    for (const auto& point : curve) shares.push_back(point["share"]);
    ASSERT_THAT(shares, ElementsAre(0, 0.1, 0.25, 0.5, 0.75, 1)) << name;
    EXPECT_NEAR(curve[0]["map"].get<double>(), map_of["new on old"], 1e-9) << name;
    EXPECT_NEAR(curve[5]["map"].get<double>(), map_of["new on new"], 1e-9) << name;
  }
  const std::string page = ReadFile(demo_ + "/report.html").value();
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</body></html>\n"));
  EXPECT_THAT(page, HasSubstr("the first 2 classes; the new one on the first 4"));
  EXPECT_FALSE(std::filesystem::exists(demo_ + "/server/stale"));
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
