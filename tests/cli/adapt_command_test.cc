// `lightcone adapt` from files of embeddings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/rng.h"
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
    std::vector<int32_t> views(300), few(300);
    for (int i = 0; i < 300; ++i) views[static_cast<size_t>(i)] = i % 150;
    for (int i = 0; i < 300; ++i) few[static_cast<size_t>(i)] = i % 30;
    Write("items.npy", NpyType::kInt32, {300}, views.data(), 300 * sizeof(int32_t));
    Write("few-items.npy", NpyType::kInt32, {300}, few.data(), 300 * sizeof(int32_t));
    for (const int rows : {63, 70}) {
      Write(StrCat("old", rows, ".npy"), NpyType::kFloat32, {rows, 8}, world.old_z.data(), rows * 8 * sizeof(float));
      Write(StrCat("new", rows, ".npy"), NpyType::kFloat32, {rows, 10}, world.new_z.data(), rows * 10 * sizeof(float));
    }
    Write("labels70.npy", NpyType::kInt32, {70}, world.labels.data(), 70 * sizeof(int32_t));
    std::vector<float> damaged = world.new_z;
    damaged[17 * 10 + 3] = std::numeric_limits<float>::quiet_NaN();
    Write("damaged.npy", NpyType::kFloat32, {300, 10}, damaged.data(), damaged.size() * sizeof(float));
    Write("few.npy", NpyType::kFloat32, {10, 10}, world.new_z.data(), 100 * sizeof(float));
  }

  void Write(const std::string& name, NpyType type, const std::vector<int64_t>& shape, const void* data, size_t bytes) {
    const std::string_view content(static_cast<const char*>(data), bytes);
    EXPECT_TRUE(WriteFileAtomically(scratch_ / name, EncodeNpy(type, shape, content)).ok());
  }

  Outcome Run(std::vector<std::string> words) {
    const bool other_map = std::find(words.begin(), words.end(), "--map") != words.end();
    if (!other_map) words.insert(words.begin(), {"--map", "residual-mlp", "--width", "16"});
    if (std::find(words.begin(), words.end(), "--bank") == words.end()) words.insert(words.begin(), {"--bank", "128"});
    words.insert(words.begin(), {"adapt", "--steps", "30"});
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

TEST_F(AdaptCommand, ChoosesTheMapByItselfAndSaysWhy) {
  const Outcome tables = RunOnFiles({"--map", "auto", "--metric", "cosine", "--out", scratch_ / "a.adapter"});
  ASSERT_EQ(tables.exit_code, 0) << tables.err;
  EXPECT_THAT(tables.out, HasSubstr("has the least held-out loss reg+rel: procrustes "));
  const Outcome outcome =
      RunHere(scratch_, {"adapt", "--steps", "30", "--old-embeddings", scratch_ / "old.npy", "--new-embeddings",
                         scratch_ / "new.npy", "--metric", "cosine", "--out", scratch_ / "b.adapter", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json fit = outcome.json()["adapter"]["fit"];
  EXPECT_EQ(fit["compared_by"], "reg+rel");
  EXPECT_GE(fit["compared"].size(), 4u) << "the map auto is the one without --map";
  EXPECT_THAT(RunOnFiles({"--map", "auto", "--width", "16", "--out", scratch_ / "a.adapter"}).err,
              HasSubstr("'--width' is 16; allowed: 0 with --map auto: it is for residual-mlp and kernel"));
  EXPECT_THAT(RunOnFiles({"--map", "spline", "--out", scratch_ / "a.adapter"}).err, HasSubstr("allowed: auto, procr"));
}

TEST_F(AdaptCommand, MatchesRowsWithoutPairsAndSaysHowMany) {
  // Subjects in a plane of eight dimensions, and a second model that turns the eight about.
  Rng rng(5);
  std::vector<float> subjects, old_z, new_z;
  for (int i = 0; i < 8 * 30; ++i) subjects.push_back(static_cast<float>(rng.Normal()));
  const auto draw = [&](bool turned, std::vector<float>* rows) {
    const double u = rng.Uniform();
    const float* const subject = subjects.data() + 8 * static_cast<size_t>(u * u * 30);
    for (size_t d = 0; d < 8; ++d) {
      const size_t from = turned ? (d + 3) % 8 : d;
      rows->push_back((turned && d % 3 == 0 ? -1.0f : 1.0f) *
                      (subject[from] + 0.3f * static_cast<float>(rng.Normal())));
    }
  };
  for (int i = 0; i < 1'200; ++i) draw(false, &old_z);
  for (int i = 0; i < 1'100; ++i) draw(true, &new_z);
  Write("apart_old.npy", NpyType::kFloat32, {1200, 8}, old_z.data(), old_z.size() * sizeof(float));
  Write("apart_new.npy", NpyType::kFloat32, {1100, 8}, new_z.data(), new_z.size() * sizeof(float));
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--map",
                                      "affine",
                                      "--unpaired",
                                      "--old-embeddings",
                                      scratch_ / "apart_old.npy",
                                      "--new-embeddings",
                                      scratch_ / "apart_new.npy",
                                      "--out",
                                      scratch_ / "u.adapter"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  };
  const Outcome outcome = run({"--metric", "cosine", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  // The same turn as the second model's: of the rows of a plain map each has one number that counts.
  const AdapterFile made = ReadAdapter(scratch_ / "u.adapter").value();
  const AdapterSpec& spec = made.spec;
  EXPECT_TRUE(made.fit.matched);
  for (size_t d = 0; d < 8; ++d) {
    const float* const row = spec.linear.data() + 8 * d;
    const auto greatest = std::max_element(row, row + 8, [](float x, float y) { return std::abs(x) < std::abs(y); });
    EXPECT_EQ(static_cast<size_t>(greatest - row), (d + 3) % 8) << d;
  }
  EXPECT_GT(outcome.json()["matched"]["agreement"].get<double>(), 0.5);
  EXPECT_EQ(outcome.json()["matched"]["looked_at"], 1200);
  EXPECT_TRUE(outcome.json()["evaluation"].is_null());
  EXPECT_EQ(ReadAdapter(scratch_ / "u.adapter").value().spec.input_dimension, 8);
  EXPECT_THAT(run({"--metric", "cosine"}).out, HasSubstr("pairs are matches, not items: "));
  EXPECT_THAT(run({}).err, HasSubstr("'--metric' is lorentz; allowed: cosine with --unpaired"));
  EXPECT_THAT(run({"--metric", "cosine", "--loss", "reg+sup"}).err, HasSubstr("'--loss' is reg+sup; allowed: "));
  EXPECT_THAT(run({"--metric", "cosine", "--test-share", "0.2"}).err, HasSubstr("'--test-share' is 0.2; allowed: "));
  // Models with nothing in common: there is no file that somebody could serve.
  std::vector<float> noise;
  for (int i = 0; i < 1'000 * 8; ++i) noise.push_back(static_cast<float>(rng.Normal()));
  Write("noise.npy", NpyType::kFloat32, {1000, 8}, noise.data(), noise.size() * sizeof(float));
  const Outcome none = Run({"--map", "affine", "--unpaired", "--old-embeddings", scratch_ / "apart_old.npy", "--metric",
                            "cosine", "--new-embeddings", scratch_ / "noise.npy", "--out", scratch_ / "n.adapter"});
  EXPECT_EQ(none.exit_code, 5) << none.err;
  EXPECT_THAT(none.err, HasSubstr("no common shape was found"));
  EXPECT_FALSE(ReadAdapter(scratch_ / "n.adapter").ok());
  EXPECT_THAT(run({"--metric", "cosine", "--pairs", "100"}).err, HasSubstr("'--pairs' is 100; allowed: 0"));
  EXPECT_THAT(run({"--metric", "cosine", "--labels", scratch_ / "labels.npy"}).err, HasSubstr("'--labels' is given"));
  EXPECT_THAT(RunOnFiles({"--metric", "cosine", "--unpaired", "--out", scratch_ / "u.adapter"}).err,
              HasSubstr("'--old-embeddings' is 300 rows; allowed: at least 1000 with --unpaired"));
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

TEST_F(AdaptCommand, KeepsTheViewsOfOneItemTogether) {
  const std::vector<std::string> labelled = {"--labels", scratch_ / "labels.npy", "--test-share", "0.2",
                                             "--out",    scratch_ / "a.adapter",  "--json"};
  std::vector<std::string> by_item = labelled;
  by_item.insert(by_item.end(), {"--items", scratch_ / "items.npy"});
  const Outcome outcome = RunOnFiles(by_item);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["evaluation"]["queries"], 30)
      << "of 150 items of two views each 30 are for the test, once each";
  EXPECT_EQ(outcome.json()["adapter"]["fit"]["pairs"], 216) << "of the others' 240 views 24 are held out, two an item";
  EXPECT_EQ(outcome.json()["adapter"]["fit"]["held_out_pairs"], 24);

  // A view in the gallery would be its query's nearest item: with every item twice over, no query fails.
  const TwoModels world = MakeTwoModels(150, 6, 8, 10, Metric::kLorentz, 1);
  std::vector<float> old_z = world.old_z, new_z = world.new_z;
  old_z.insert(old_z.end(), world.old_z.begin(), world.old_z.end());
  new_z.insert(new_z.end(), world.new_z.begin(), world.new_z.end());
  std::vector<int32_t> labels(300);
  Rng rng(1);
  for (size_t i = 0; i < 150; ++i) labels[i] = labels[i + 150] = static_cast<int32_t>(rng.Below(6));  // of no meaning
  Write("old.npy", NpyType::kFloat32, {300, 8}, old_z.data(), old_z.size() * sizeof(float));
  Write("new.npy", NpyType::kFloat32, {300, 10}, new_z.data(), new_z.size() * sizeof(float));
  Write("labels.npy", NpyType::kInt32, {300}, labels.data(), labels.size() * sizeof(int32_t));
  const Outcome honest = RunOnFiles(by_item), leaking = RunOnFiles(labelled);
  ASSERT_EQ(honest.exit_code, 0) << honest.err;
  EXPECT_LT(honest.json()["evaluation"]["new_new"]["cmc1"], 0.5);
  EXPECT_GT(leaking.json()["evaluation"]["new_new"]["cmc1"], honest.json()["evaluation"]["new_new"]["cmc1"]);
}

TEST_F(AdaptCommand, RefusesWhatItsMapHasNot) {
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--out", scratch_ / "a.adapter"});
    const Outcome outcome = RunOnFiles(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"--map", "affine", "--width=-7"}), HasSubstr("'--width' is -7; allowed: 0 with --map affine"));
  EXPECT_THAT(error({"--map", "procrustes", "--width", "16"}), HasSubstr("'--width' is 16"));
  EXPECT_THAT(error({"--map", "affine", "--rank", "900"}),
              HasSubstr("'--rank' is 900; allowed: nothing with --map affine"));
  EXPECT_THAT(error({"--map", "kernel", "--loss", "sup"}),
              HasSubstr("'--loss' is sup; allowed: auto with --map kernel"));
  EXPECT_EQ(RunOnFiles({"--map", "procrustes", "--loss", "auto", "--out", scratch_ / "a.adapter"}).exit_code, 0);
}

TEST_F(AdaptCommand, NamesTheFlagAtFault) {
  const auto error = [&](std::vector<std::string> words, bool files = true) {
    words.insert(words.end(), {"--out", scratch_ / "a.adapter"});
    const Outcome outcome = files ? RunOnFiles(words) : Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"--bank", "1"}), HasSubstr("'--bank' is 1; allowed: 2 .. 65536"));
  EXPECT_THAT(error({"--old-clip", "0"}), HasSubstr("'--old-clip' is 0"));
  EXPECT_THAT(error({"--new-clip", "0"}), HasSubstr("'--new-clip' is 0"));
  EXPECT_THAT(error({"--old-clip", "0", "--direction", "query"}), HasSubstr("'--old-clip' is 0"));
  EXPECT_THAT(error({"--curvature", "0"}), HasSubstr("'--curvature' is 0"));
  EXPECT_THAT(error({"--metric", "euclidean"}), HasSubstr("'--metric' is euclidean"));
  EXPECT_THAT(error({"--loss", "sup"}), HasSubstr("'--labels' is absent"));
  EXPECT_THAT(error({"--pairs", "5"}), HasSubstr("'--pairs' is 5; allowed: 0 (all), or 64 .. 300, the rows to fit\n"));
  EXPECT_THAT(error({"--pairs", "100000"}), HasSubstr("'--pairs' is 100000"));
  EXPECT_THAT(error({"--items", scratch_ / "few-items.npy"}),
              HasSubstr("'--items' is 30 different items to fit; allowed: at least 32"));
  EXPECT_THAT(error({"--items", scratch_ / "labels70.npy"}), HasSubstr("'--items' is 70 items; allowed: 300"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "old63.npy", "--new-embeddings", scratch_ / "new63.npy"}, false),
              HasSubstr("'--old-embeddings' is 63 rows to fit; allowed: at least 64"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "old70.npy", "--new-embeddings", scratch_ / "new70.npy", "--labels",
                     scratch_ / "labels70.npy"},
                    false),
              HasSubstr("'--old-embeddings' is 63 rows to fit (7 rows kept by --test-share); allowed: at least 64"));
  EXPECT_THAT(error({"--old-embeddings", scratch_ / "old.npy", "--new-embeddings", scratch_ / "damaged.npy", "--labels",
                     scratch_ / "labels.npy"},
                    false),
              HasSubstr("'--new-embeddings[17][3]' is nan"));
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
  EXPECT_THAT(error({"--loss", "sup"}), HasSubstr("'--labels'"));
  EXPECT_THAT(error({"--map", "low-rank-affine", "--rank", "9"}), HasSubstr("'rank' is 9; allowed: 1 .. 8"));
  EXPECT_THAT(error({"--metric", "euclidean"}), HasSubstr("euclidean"));
  EXPECT_THAT(error({"--pairs", "5"}), HasSubstr("'--pairs' is 5"));
  for (const char* flag : {"--old-model", "--new-model", "--base-model", "--data", "--views"}) {
    EXPECT_THAT(error({flag, "1"}), HasSubstr(StrCat("'", flag, "' is together with embeddings; allowed: only with")));
  }
  for (const char* flag :
       {"--labels", "--items", "--metric", "--curvature", "--old-clip", "--new-clip", "--test-share"}) {
    EXPECT_THAT(error({"--old-model", "m", "--new-model", "n", flag, "1"}, false),
                HasSubstr(StrCat("'", flag, "' is together with models; allowed: only with")));
  }
  EXPECT_THAT(error({"--labels", "l.npy"}, false), HasSubstr("'--old-embeddings' is absent"));
  EXPECT_THAT(error({"--old-model", "m", "--new-model", "n", "--views", "65"}, false),
              HasSubstr("'--views' is 65; allowed: 0 .. 64"));
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
