// Rows beyond the plain pair: adapters, other dimensions, chains, models without an old one.
#include "nlohmann/json.hpp"
#include "research/experiment/plan.h"
#include "tests/trainer/experiment_testing.h"

namespace lightcone {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::map<std::string, json> RowsOf(const TinyExperiment& tiny) {
  std::map<std::string, json> rows;
  const json table = json::parse(tiny.Table(), nullptr, /*allow_exceptions=*/false);
  for (const json& row : table.value("rows", json::array())) rows[row["name"].get<std::string>()] = row;
  return rows;
}

constexpr char kAdapterRows[] = R"(
[space.lorentz]
metric = "lorentz"

[row.item]
method = "independent"
adapter.loss = "reg+sup"
adapter.map = "affine"
adapter.steps = 40

[row.query]
method = "independent"
adapter.direction = "query"
adapter.map = "procrustes"

[row.wide]
method = "independent"
encoder.dimension = 12
adapter.map = "affine"
adapter.loss = "reg"
adapter.steps = 40
)";

TEST(ExperimentRows, AdaptersAreFittedOnceAndSpanDimensions) {
  const TinyExperiment tiny;
  tiny.Write(std::string(kTinyHead) + kAdapterRows);
  EXPECT_EQ(tiny.MustRun().trained, 3) << "old, independent, and the one of 12 dimensions";
  std::map<std::string, json> rows = RowsOf(tiny);
  const auto mean = [&](const std::string& row, const char* measure) {
    return rows[row]["measures"][measure]["mean"].get<double>();
  };
  const double none = mean("independent-lorentz", "cross.map");
  for (const char* row : {"item", "query", "wide"}) EXPECT_GT(mean(row, "cross.map"), none) << row;
  EXPECT_EQ(mean("item", "self.map"), mean("independent-lorentz", "self.map"));
  const std::map<std::string, std::string> before = tiny.Files();
  EXPECT_EQ(tiny.MustRun().trained, 0);
  EXPECT_EQ(tiny.Files(), before);
  for (const auto& [name, bytes] : before) {
    if (!name.ends_with(".adapter")) continue;
    std::string damaged = bytes;
    damaged[damaged.size() / 2] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(tiny.options.out + "/" + name, damaged).ok());
    EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr(name));
    std::filesystem::remove(tiny.options.out + "/" + name);  // as the error says
    EXPECT_EQ(tiny.MustRun().trained, 0);
  }
  EXPECT_EQ(tiny.Files(), before) << "fitted again";
}

TEST(ExperimentRows, AStudyOfUncertaintiesIsMadeOnceAndADamagedOneIsNamed) {
  const TinyExperiment tiny;
  tiny.Write(StrCat("uncertainty = \"hbct\"\nseeds = \"1,2\"\n", kTinyHead, kTinyRows));
  EXPECT_EQ(tiny.MustRun().result.studies.size(), 2u);
  const std::map<std::string, std::string> before = tiny.Files();
  const json study = json::parse(before.at("tiny/uncertainty.json"), nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(study["row"], "hbct");
  EXPECT_EQ(study["items"][1]["all"], 32);
  EXPECT_EQ(study["oracle"][0]["map"].size(), 11u);
  ASSERT_GT(study["predictors"].size(), 10u);
  for (const json& p : study["predictors"]) {
    EXPECT_EQ(p["curves"].size(), 2u) << p["name"];
    EXPECT_THAT(before.at("tiny/uncertainty.md"), HasSubstr(p["name"].get<std::string>()));
  }
  tiny.MustRun();
  EXPECT_EQ(tiny.Files(), before);
  for (const auto& [name, bytes] : before) {
    if (!name.ends_with("--study.json")) continue;
    std::string damaged = bytes;
    damaged[damaged.size() / 2] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(tiny.options.out + "/" + name, damaged).ok());
    EXPECT_THAT(MessageOf(tiny.Error()), AllOf(HasSubstr(name), HasSubstr("row 'hbct'"), HasSubstr("remove the file")));
    std::filesystem::remove(tiny.options.out + "/" + name);  // as the error says
  }
  tiny.MustRun();
  EXPECT_EQ(tiny.Files(), before);
  tiny.Change("uncertainty = \"hbct\"", "");
  tiny.MustRun();
  EXPECT_FALSE(tiny.Files().contains("tiny/uncertainty.md")) << "no longer asked for";
}

TEST(ExperimentRows, LightconeIsMeasuredThroughAnAdapterWhateverTheOldDimension) {
  const TinyExperiment tiny;
  tiny.Write(std::string(kTinyHead) +
             "[row.lightcone]\nmethod = \"lightcone\"\nlightcone.width = 16\n"
             "[row.wide]\nmethod = \"lightcone\"\nlightcone.compatible = \"none\"\nlightcone.width = "
             "16\nencoder.dimension = 12\n"
             "adapter.map = \"affine\"\nadapter.steps = 40\n");
  tiny.MustRun();
  std::map<std::string, json> rows = RowsOf(tiny);
  const double none = rows["independent-default"]["measures"]["cross.map"]["mean"];
  for (const char* row : {"lightcone", "wide"}) {
    EXPECT_GT(rows[row]["measures"]["cross.map"]["mean"].get<double>(), none) << row;
  }
  int adapters = 0;
  for (const auto& [name, bytes] : tiny.Files()) adapters += name.ends_with(".adapter");
  EXPECT_EQ(adapters, 2) << "a row without options of an adapter gets the usual one";
}

TEST(ExperimentRows, WhatCannotWorkWithThePairIsRefusedBeforeAnythingIsTrained) {
  const TinyExperiment tiny;
  const auto error = [&](const std::string& rows) {
    tiny.Write(std::string(kTinyHead) + rows);
    const absl::Status status = tiny.Error();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << MessageOf(status);
    EXPECT_FALSE(std::filesystem::exists(tiny.options.out + "/models"));
    return MessageOf(status);
  };
  EXPECT_THAT(error("[row.a]\nmethod = \"independent\"\nencoder.dimension = 12\n"),
              HasSubstr("field 'row.a: encoder.dimension' is 12; allowed: 8"));
  EXPECT_THAT(error("[row.a]\nmethod = \"hbct\"\nencoder.dimension = 12\nadapter.loss = \"reg\"\n"),
              HasSubstr("encoder.dimension"));
  EXPECT_THAT(error("[row.a]\nmethod = \"independent\"\nmetric = \"cosine\"\nadapter.loss = \"reg\"\n"),
              HasSubstr("field 'row.a: metric' is cosine; allowed: lorentz"));
}

TEST(ExperimentRows, AnotherCurvatureThanTheOldModelsIsRefusedBeforeAnythingIsTrained) {
  const TinyExperiment tiny;
  const auto error = [&](const std::string& recipe) {
    tiny.Write(recipe);
    const absl::Status status = tiny.Error();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << MessageOf(status);
    EXPECT_FALSE(std::filesystem::exists(tiny.options.out + "/models"));
    return MessageOf(status);
  };
  const std::string head = kTinyHead, hbct = "[row.a]\nmethod = \"hbct\"\n", learnt = "learn_curvature = true\n";
  const auto is_learnt = HasSubstr("field 'row.a: learn_curvature' is true for the old model; allowed: false");
  EXPECT_THAT(error(head + learnt + hbct), is_learnt) << "in [train]";
  EXPECT_THAT(error(head + "[space.x]\n" + learnt + hbct), is_learnt);
  EXPECT_THAT(error(head + "[old]\n" + learnt + hbct), is_learnt);
  // Generation 1 has an old model of a fixed K, generation 2 does not.
  std::string chain = head + "[step.2]\nencoder.width = 0.25\n" + hbct + learnt;
  const std::string plain = "name = \"ext-class\"";
  chain.replace(chain.find(plain), plain.size(), "name = \"sequential\"\nchain_shares = \"0.5, 0.75, 1\"");
  EXPECT_THAT(error(chain), is_learnt);
  EXPECT_THAT(error(head + "[step.1]\ncurvature = 0.50000001\n" + hbct),
              HasSubstr("field 'row.a: curvature' is 0.50000001; allowed: 1, as the old model"));
  EXPECT_THAT(error(head + hbct + "curvature = 0.5\n"), HasSubstr("'row.a: curvature' is 0.5; allowed: 1"));
}

TEST(ExperimentRows, ACurvatureThatNoOldModelHasToShareIsPlanned) {
  const TinyExperiment tiny;
  for (const char* rows :
       {"[row.a]\nmethod = \"independent\"\nlearn_curvature = true\n",
        "[row.a]\nmethod = \"independent\"\ncurvature = 0.5\n", "[row.a]\nmethod = \"hbct\"\nlearn_curvature = true\n",
        "[space.x]\ncurvature = 0.5\n[row.a]\nmethod = \"hbct\"\n"}) {
    tiny.Write(std::string(kTinyHead) + rows);
    const absl::StatusOr<ExperimentForecast> forecast = ForecastExperiment(tiny.options, 1000);
    EXPECT_TRUE(forecast.ok()) << rows << MessageOf(forecast.status());
  }
}

TEST(ExperimentRows, ARankAboveTheDimensionAndTooManyPairsAreRefusedWithTheRow) {
  const TinyExperiment tiny;
  for (const auto& [setting, field] :
       {std::pair("adapter.map = \"low-rank-affine\"\nadapter.rank = 9", "rank"),
        std::pair("adapter.map = \"kernel\"\nadapter.views = 1\nadapter.width = 4000", "adapter.width"),
        std::pair("adapter.pairs = 73", "adapter.pairs"), std::pair("adapter.pairs = 20", "pairs")}) {
    tiny.Write(StrCat(kTinyHead, "[row.a]\nmethod = \"independent\"\n", setting, "\n"));
    const absl::Status status = tiny.Error();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << MessageOf(status);
    EXPECT_THAT(MessageOf(status), testing::AllOf(HasSubstr("row 'a', seed 1"), HasSubstr(field)));
    EXPECT_FALSE(std::filesystem::exists(tiny.options.out + "/models")) << "nothing is trained for it";
  }
}

TEST(ExperimentRows, AChainHasTheMatrixOfItsGenerations) {
  const TinyExperiment tiny;
  tiny.Write(std::string(kTinyHead) + kTinyRows);
  tiny.Change("name = \"ext-class\"", "name = \"sequential\"\nchain_shares = \"0.5, 0.75, 1\"\nchain_change = 2");
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("another one from generation 2 on"));
  tiny.Change("[space.lorentz]", "[step.2]\nencoder.width = 0.25\n\n[space.lorentz]");
  EXPECT_EQ(tiny.MustRun().trained, 3 + 2 + 2) << "three alone, two of each chain";
  std::map<std::string, json> rows = RowsOf(tiny);
  const json& matrix = rows["hbct"]["p_com_matrix"]["map"];
  ASSERT_EQ(matrix.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(matrix[i][j].is_object(), j < i) << i << ", " << j;
  }
  EXPECT_EQ(matrix[2][1]["mean"], rows["hbct"]["measures"]["p_com.map"]["mean"]);
  EXPECT_THAT(ReadFile(tiny.options.out + "/tiny/table.md").value(), HasSubstr("column = of the gallery"));
}

TEST(ExperimentRows, AnotherSpaceMayBeTheReference) {
  const TinyExperiment tiny;
  tiny.Write(StrCat(kTinyHead, "[space.a]\nmetric = \"lorentz\"\n[space.b]\nmetric = \"lorentz\"\ncurvature = 0.5\n",
                    "[row.own]\nmethod = \"hbct\"\nspace = \"b\"\n[row.other]\nmethod = \"hbct\"\nspace = \"b\"\n",
                    "reference = \"a\"\n"));
  EXPECT_EQ(tiny.MustRun().trained, 5) << "two of each space, and one that both rows share";
  std::map<std::string, json> rows = RowsOf(tiny);
  const auto mean = [&](const std::string& row, const char* measure) {
    return rows[row]["measures"][measure]["mean"].get<double>();
  };
  EXPECT_EQ(mean("own", "cross.map"), mean("other", "cross.map"));
  for (const auto& [row, space] : {std::pair("own", "b"), std::pair("other", "a")}) {
    const double alone = mean(StrCat("independent-", space), "self.map");
    EXPECT_NEAR(mean(row, "p_up.map"), (mean(row, "self.map") - alone) / alone, 1e-12) << row;
  }
}

TEST(ExperimentRows, WithoutAnOldModelThereIsOneGeneration) {
  const TinyExperiment tiny;
  tiny.Write(std::string(kTinyHead) + "far = 0.1\n");  // within [train]: not an option of a training
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("far"));
  tiny.Write(StrCat("far = 0.1\n", kTinyHead, "[row.a]\nmethod = \"independent\"\nepochs = 3\n"));
  tiny.Change("ext-class", "alone");
  EXPECT_EQ(tiny.MustRun().trained, 2);
  std::map<std::string, json> rows = RowsOf(tiny);
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows["a"]["measures"].contains("self.tar"));
  EXPECT_FALSE(rows["a"]["measures"].contains("cross.map"));
  EXPECT_THAT(ReadFile(tiny.options.out + "/tiny/table.md").value(), HasSubstr("self TAR@FAR=0.1"));
  const std::string stale = tiny.options.out + "/tiny/confusion.svg";  // as of other data under the same name
  ASSERT_TRUE(WriteFileAtomically(stale, "<svg/>").ok());
  EXPECT_EQ(tiny.MustRun().trained, 0);
  EXPECT_FALSE(std::filesystem::exists(stale));
  tiny.Change("method = \"independent\"", "method = \"hbct\"");
  EXPECT_THAT(MessageOf(tiny.Error()), HasSubstr("methods that need no old model"));
}

}  // namespace
}  // namespace lightcone
