// `lightcone adapt` from files of embeddings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/strings.h"
#include "models/adapter_file.h"
#include "tests/cli/run_program.h"
#include "tests/trainer/two_models.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;

class AdaptCommand : public testing::Test {
 protected:
  AdaptCommand() {
    const TwoModels world = MakeTwoModels(300, 6, 8, 10, Metric::kLorentz, 1);
    Write("old.npy", NpyType::kFloat32, {300, 8}, world.old_z.data(), world.old_z.size() * sizeof(float));
    Write("new.npy", NpyType::kFloat32, {300, 10}, world.new_z.data(), world.new_z.size() * sizeof(float));
    Write("labels.npy", NpyType::kInt32, {300}, world.labels.data(), world.labels.size() * sizeof(int32_t));
    Write("few.npy", NpyType::kFloat32, {10, 10}, world.new_z.data(), 100 * sizeof(float));
  }

  void Write(const std::string& name, NpyType type, const std::vector<int64_t>& shape, const void* data, size_t bytes) {
    const std::string_view content(static_cast<const char*>(data), bytes);
    EXPECT_TRUE(WriteFileAtomically(scratch_ / name, EncodeNpy(type, shape, content)).ok());
  }

  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), {"adapt", "--width", "16", "--steps", "30", "--bank", "128"});
    return RunHere(scratch_, words);
  }
  Outcome RunOnFiles(std::vector<std::string> words) {
    words.insert(words.begin(), {"--old-embeddings", scratch_ / "old.npy", "--new-embeddings", scratch_ / "new.npy"});
    return Run(words);
  }

  TemporaryFolder scratch_;
};

TEST_F(AdaptCommand, WritesAnAdapterAndShowsWhatItGains) {
  const std::string file = scratch_ / "a.adapter";
  const Outcome outcome =
      RunOnFiles({"--labels", scratch_ / "labels.npy", "--test-share", "0.2", "--out", file, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["file"], file);
  EXPECT_EQ(json["adapter"]["fit"]["pairs"], 216) << "of 300 rows 60 are for the test, 24 are held out";
  EXPECT_EQ(json["adapter"]["fit"]["loss"], "reg+rel+0.3*sup");
  EXPECT_EQ(json["evaluation"]["queries"], 60);
  EXPECT_TRUE(json["evaluation"]["new_old"].is_null()) << "8 and 10 numbers cannot be compared";
  EXPECT_GT(json["evaluation"]["new_old_adapted"]["map"], 0.5);
  EXPECT_EQ(json["evaluation"]["mixed"].size(), 6u);
  const AdapterFile adapter = ReadAdapter(file).value();
  EXPECT_EQ(adapter.spec.input_dimension, 8);
  EXPECT_EQ(adapter.spec.target.dimension, 10);
  EXPECT_EQ(adapter.spec.target.clip_radius, 1.2);
  EXPECT_EQ(adapter.from, "old");
}

TEST_F(AdaptCommand, OfTheQuerySideGoesTheOtherWayAndSaysSoInTables) {
  const std::string file = scratch_ / "q.adapter";
  const Outcome outcome =
      RunOnFiles({"--labels", scratch_ / "labels.npy", "--direction", "query", "--map", "affine", "--out", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("affine adapter of the query side, 'new' -> 'old', 10 -> 8"));
  EXPECT_THAT(outcome.out, HasSubstr("new, adapted"));
  EXPECT_THAT(outcome.out, HasSubstr("backfilled"));
  EXPECT_EQ(ReadAdapter(file).value().spec.input_dimension, 10);
}

TEST_F(AdaptCommand, WithoutLabelsFitsOnEveryRowAndEvaluatesNothing) {
  const Outcome outcome = RunOnFiles({"--out", scratch_ / "a.adapter", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["adapter"]["fit"]["loss"], "reg+rel");
  EXPECT_EQ(outcome.json()["adapter"]["fit"]["pairs"], 270);
  EXPECT_TRUE(outcome.json()["evaluation"].is_null());
  EXPECT_THAT(RunOnFiles({"--out", scratch_ / "a.adapter"}).out, HasSubstr("not evaluated: no labels (--labels)"));
}

TEST_F(AdaptCommand, RefusesWhatIsWrong) {
  const auto error = [&](std::vector<std::string> words, bool files = true) {
    words.insert(words.end(), {"--out", scratch_ / "a.adapter"});
    const Outcome outcome = files ? RunOnFiles(words) : Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(RunOnFiles({}).err, HasSubstr("--out"));
  EXPECT_THAT(error({"--direction", "both"}), HasSubstr("'both'"));
  EXPECT_THAT(error({"--map", "mlp"}), HasSubstr("'mlp'"));
  EXPECT_THAT(error({"--loss", "mse"}), HasSubstr("'mse'"));
  EXPECT_THAT(error({"--loss", "sup"}), HasSubstr("pairs.labels"));
  EXPECT_THAT(error({"--map", "low-rank-affine", "--rank", "9"}), HasSubstr("'rank' is 9; allowed: 1 .. 8"));
  EXPECT_THAT(error({"--metric", "euclidean"}), HasSubstr("euclidean"));
  EXPECT_THAT(error({"--pairs", "5"}), HasSubstr("'pairs_max' is 5"));
  for (const char* flag : {"--old-model", "--new-model", "--base-model", "--data", "--views"}) {
    EXPECT_THAT(error({flag, "1"}), HasSubstr(StrCat("'", flag, "' is together with embeddings; allowed: only with")));
  }
  for (const char* flag : {"--labels", "--metric", "--curvature", "--old-clip", "--new-clip", "--test-share"}) {
    EXPECT_THAT(error({"--old-model", "m", "--new-model", "n", flag, "1"}, false),
                HasSubstr(StrCat("'", flag, "' is together with models; allowed: only with")));
  }
  EXPECT_THAT(error({"--labels", "l.npy"}, false), HasSubstr("'--old-embeddings' is absent"));
  EXPECT_THAT(error({"--old-model", "m", "--new-model", "n", "--views", "65"}, false), HasSubstr("'--views' is 65; allowed: 0 .. 64"));
  EXPECT_THAT(error({"--labels", scratch_ / "old.npy"}), HasSubstr("float32"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "labels.npy", "--new-embeddings", scratch_ / "new.npy"}, false),
              HasSubstr("of shape (300"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "old.npy", "--new-embeddings", scratch_ / "few.npy"}, false),
              HasSubstr("10 rows"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "old.npy"}, false), HasSubstr("--new-embeddings"));
  EXPECT_THAT(error({}, false), HasSubstr("--old-model"));
  EXPECT_EQ(Run({"--old-model", scratch_ / "none", "--new-model", scratch_ / "none", "--out", "x"}).exit_code, 3);
}

}  // namespace
}  // namespace lightcone::cli
