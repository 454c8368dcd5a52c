// `lightcone bench` against a real server: what it writes, asks and counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/status.h"
#include "cli/child_server.h"
#include "cli/formats/rows.h"
#include "cli/load/gallery.h"
#include "cli/load/generator.h"
#include "cli/load/report.h"
#include "tests/cli/served_test.h"

namespace lightcone::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class BenchCommand : public ServedTest {
 protected:
  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--server", server_->address()});
    return RunHere(scratch_, words);
  }
  // A short run over a small gallery.
  Outcome RunSmall(std::vector<std::string> words) {
    words.insert(words.end(), {"--items", "2000", "--dimension", "16", "--clusters", "20", "--query-count", "50",
                               "--seconds", "0.2", "--warm-up", "0", "--json"});
    return Run(words);
  }
  nlohmann::json Collections() {
    return RunHere(scratch_, {"collection", "list", "--json", "--server", server_->address()}).json();
  }
  // Rows i, i + 1, ... of numbers in a file.
  std::string PutRows(const std::string& name, int rows, int dimension, float first = 0) {
    auto writer = CreateRows(scratch_ / name, RowFormat::kFvecs);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int i = 0; i < rows; ++i) {
      Row row;
      for (int j = 0; j < dimension; ++j) row.vector.push_back(first + static_cast<float>(i + j * j % 7));
      row.id.emplace().set_number(static_cast<uint64_t>(i));
      EXPECT_TRUE((*writer)->Write(row).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return scratch_ / name;
  }
  std::string PutVectors(const std::string& name, const std::vector<std::vector<float>>& vectors) {
    auto writer = CreateRows(scratch_ / name, RowFormat::kFvecs);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (size_t i = 0; i < vectors.size(); ++i) {
      Row row;
      row.vector = vectors[i];
      row.id.emplace().set_number(i);
      EXPECT_TRUE((*writer)->Write(row).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return scratch_ / name;
  }
  std::string PutTruth(const std::string& name, const std::vector<std::vector<int32_t>>& rows) {
    std::string bytes;
    for (const std::vector<int32_t>& row : rows) {
      const int32_t count = static_cast<int32_t>(row.size());
      bytes.append(reinterpret_cast<const char*>(&count), 4);
      bytes.append(reinterpret_cast<const char*>(row.data()), 4 * row.size());
    }
    EXPECT_TRUE(WriteFileAtomically(scratch_ / name, bytes).ok());
    return scratch_ / name;
  }
};

TEST_F(BenchCommand, AClosedLoopGivesAPointForEachBreadthAndLeavesNothingBehind) {
  const Outcome outcome = RunSmall({"--ef", "10,200", "--clients", "2", "--out", scratch_ / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["items"], 2000);
  EXPECT_EQ(json["loop"], "closed");
  ASSERT_THAT(json["points"], SizeIs(2));
  for (const nlohmann::json& point : json["points"]) {
    EXPECT_GT(point["search"]["calls"], 0);
    EXPECT_EQ(point["search"]["failed"], 0);
    EXPECT_GT(point["search"]["per_s"], 0);
    EXPECT_LE(point["search"]["ms"]["p50"], point["search"]["ms"]["p99"]);
    EXPECT_LE(point["search"]["ms"]["p99"], point["search"]["ms"]["max"]);
  }
  EXPECT_GE(json["points"][1]["recall"], json["points"][0]["recall"]);
  EXPECT_GE(json["points"][1]["recall"], 0.99);
  EXPECT_THAT(Collections(), SizeIs(0)) << "the collection of the benchmark is dropped";
  EXPECT_EQ(nlohmann::json::parse(ReadFile(scratch_ / "out/bench.json").value()), json);
  EXPECT_THAT(ReadFile(scratch_ / "out/bench.svg").value(), HasSubstr(">200</text>"));
}

// Sets of 12,000 rows on which searches that name no breadth once found 1 to 50 % of the nearest rows.
TEST_F(BenchCommand, TheDefaultSearchIsMeasuredFirstAndFindsTheNearestOfAnyRows) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto draw = [&](int rows) {
    std::vector<std::vector<float>> vectors(static_cast<size_t>(rows), std::vector<float>(16));
    for (auto& z : vectors) {
      for (float& x : z) x = normal(random);
    }
    return vectors;
  };
  const auto plain = draw(12'000), asked = draw(100);
  for (const std::string name : {"plain", "offset", "long_rows", "rogue_dimension"}) {
    auto rows = plain, queries = asked;
    if (name == "offset") {  // |q|^2 + |x|^2 - 2 q x cancels in float32
      for (auto* vectors : {&rows, &queries}) {
        for (auto& z : *vectors) {
          for (float& x : z) x += 1e6f;
        }
      }
    } else if (name == "long_rows") {  // The lift of inner products drowns all others.
      for (auto& z : draw(10)) {
        for (float& x : z) x *= 50;
        rows.push_back(z);
      }
    } else if (name == "rogue_dimension") {  // One int8 scale for all dimensions drowns the others.
      for (size_t i = 0; i < rows.size(); ++i) rows[i][0] = i % 2 == 0 ? -1000.0f : 1000.0f;
      for (auto& z : queries) z[0] = 1000;
    }
    const Outcome outcome =
        Run({"--data", PutVectors(name + ".fvecs", rows), "--queries", PutVectors(name + "-queries.fvecs", queries),
             "--metric", name == "long_rows" ? "inner_product" : "euclidean", "--seconds", "0.1", "--warm-up", "0",
             "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json first = outcome.json()["points"][0];
    EXPECT_EQ(first["setting"], "default");
    EXPECT_GE(first["recall"], 0.95) << name;
  }
}

TEST_F(BenchCommand, SearchesMayAskForARecall) {
  const Outcome outcome = RunSmall({"--target-recall", "0.9,0.99", "--ef", "64"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json points = outcome.json()["points"];
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_EQ(points[0]["ef"], 64);
  EXPECT_EQ(points[0]["setting"], "ef");
  EXPECT_EQ(points[1]["setting"], "target_recall");
  EXPECT_EQ(points[1]["target_recall"], 0.9);
  EXPECT_GE(points[1]["recall"], 0.85);
  EXPECT_GE(points[2]["recall"], 0.95);
}

TEST_F(BenchCommand, ExactSearchesFindEverything) {
  const Outcome outcome = RunSmall({"--exact", "--batch", "7", "--metric", "cosine"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_THAT(outcome.json()["points"], SizeIs(1));
  EXPECT_EQ(outcome.json()["points"][0]["recall"], 1.0);
  EXPECT_EQ(outcome.json()["metric"], "cosine");
}

TEST_F(BenchCommand, AnOpenLoopMakesTheCallsThatAreDueAndMixesWrites) {
  const Outcome outcome =
      RunSmall({"--rate", "500", "--clients", "4", "--batch", "3", "--mix", "search=0.5,upsert=0.3,delete=0.2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  ASSERT_THAT(json["points"], SizeIs(1)) << "one breadth, unless --ef says more";
  const nlohmann::json& point = json["points"][0];
  int64_t calls = 0;
  for (const char* kind : {"search", "upsert", "delete"}) {
    EXPECT_EQ(point[kind]["failed"], 0) << point[kind];
    EXPECT_GT(point[kind]["calls"], 0) << kind;
    calls += point[kind]["calls"].get<int64_t>();
  }
  EXPECT_EQ(calls, 100) << "those due in a fifth of a second, no more and no less";
  EXPECT_GT(point["recall"], 0.5);
}

TEST_F(BenchCommand, AnOpenLoopThatIsFarBehindEndsAndSaysWhatWasNotAsked) {
  const Outcome outcome = RunSmall({"--rate", "10000000", "--exact"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json point = outcome.json()["points"][0];
  EXPECT_GT(point["missed"], 0);
  EXPECT_GT(point["search"]["calls"], 0);
  EXPECT_LT(point["calls_per_s"], 10'000'000);
}

TEST_F(BenchCommand, ACollectionThatIsThereIsAskedAsItIs) {
  const std::string data = PutRows("data.fvecs", 40, 4), queries = PutRows("queries.fvecs", 5, 4, 0.25f);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"collection", "create", "mine", "--geometry", "euclidean"},
        {"generation", "register", "mine", "--dimension", "4", "--activate"},
        {"import", "mine", data}}) {
    std::vector<std::string> command = words;
    command.insert(command.end(), {"--server", server_->address()});
    const Outcome outcome = RunHere(scratch_, command);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  const std::vector<std::string> ask = {"--collection", "mine",      "--queries", queries,  "-k",   "2", "--seconds",
                                        "0.1",          "--warm-up", "0",         "--json", "--ef", "64"};
  const Outcome outcome = Run(ask);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["items"], 40);
  EXPECT_EQ(outcome.json()["metric"], "euclidean");
  EXPECT_EQ(outcome.json()["points"][0]["recall"], 1.0);

  std::vector<std::string> judged = ask;
  const std::string truth = PutTruth("truth.ivecs", {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {39, 38}});
  judged.insert(judged.end(), {"--truth", truth});
  const Outcome wrong = Run(judged);
  ASSERT_EQ(wrong.exit_code, 0) << wrong.err;
  EXPECT_EQ(wrong.json()["points"][0]["recall"], 0.8) << "by the file, whose last row is made up";

  std::vector<std::string> writing = ask;
  writing.insert(writing.end(), {"--mix", "search=0.5,upsert=0.5"});
  const Outcome refused = Run(writing);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--mix"));
  EXPECT_EQ(RunHere(scratch_, {"collection", "drop", "mine", "--yes", "--server", server_->address()}).exit_code, 0);
}

TEST_F(BenchCommand, WhatCannotBeMeasuredIsRefusedByName) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--mix", "search=0.9"}, "--mix"},
      {{"--mix", "search=0.5,delete=0.5"}, "no more deletions than upserts"},
      {{"--mix", "find=1"}, "--mix"},
      {{"--clients", "0"}, "--clients"},
      {{"--batch", "0"}, "--batch"},
      {{"--rate", "-1"}, "--rate"},
      {{"--seconds", "0"}, "--seconds"},
      {{"--ef", "5"}, "--ef"},
      {{"--ef", "50", "--exact"}, "--ef"},
      {{"--target-recall", "0"}, "--target-recall"},
      {{"--target-recall", "0.9", "--exact"}, "--target-recall"},
      {{"--k", "0"}, "--k"},
      {{"--items", "-1"}, "--items"},
      {{"--dimension", "1"}, "--dimension"},
      {{"--query-count", "0"}, "--query-count"},
      {{"--recall-queries", "0"}, "--recall-queries"},
      {{"--collection", "other"}, "--queries"},
      {{"--truth", "no.ivecs"}, "--queries"},
      {{"--metric", "manhattan", "--items", "10"}, "metric"},
      {{"--filter", "class ="}, "filter"},
      {{"--data", PutRows("few.fvecs", 3, 4)}, "--data"},
      {{"--data", "rows.csv"},
       "--data' is 'rows.csv'; allowed: random-clustered, or a file that ends in .npy, .fvecs, .bvecs or .jsonl\n"},
  };
  for (const auto& [words, named] : wrong) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << words[0] << " " << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(named)) << words[0];
  }
  EXPECT_THAT(Collections(), SizeIs(0)) << "nothing was begun";
  EXPECT_EQ(Run({"--data", "missing.fvecs"}).exit_code, 3);
}

TEST_F(BenchCommand, ATruthFileThatIsCutOffOrTooShortIsRefused) {
  EXPECT_THAT(MessageOf(ReadTruth(PutTruth("short.ivecs", {{1, 2, 3}}), 10, 5).status()), HasSubstr("--truth"));
  const std::string cut = PutTruth("cut.ivecs", {{1, 2, 3}});
  ASSERT_TRUE(WriteFileAtomically(cut, ReadFile(cut)->substr(0, 11)).ok());
  EXPECT_EQ(ReadTruth(cut, 2, 5).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadTruth(PutTruth("empty.ivecs", {}), 2, 5).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BenchCommand, ALoadWhoseEveryCallFailsIsAnError) {
  const auto client = client::Client::Connect({.address = server_->address()});
  ASSERT_TRUE(client.ok());
  const auto vectors = MakeLoadVectors({.queries = "", .items = 10, .query_count = 2, .dimension = 4, .clusters = 2});
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  LoadPlan plan;
  plan.collection = "nowhere";
  plan.seconds = 0.05;
  plan.warm_up_seconds = 0;
  const auto figures = RunLoad(**client, plan, *vectors);
  EXPECT_EQ(figures.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(figures.status()), HasSubstr("every call failed"));
  const std::atomic<bool> stop = true;
  plan.stop = &stop;
  EXPECT_EQ(RunLoad(**client, plan, *vectors).status().code(), absl::StatusCode::kCancelled);
}

TEST(LoadVectorsTest, AreTheSameForTheSameSeedAndOtherwiseNot) {
  const LoadSource source{.queries = "", .items = 20, .query_count = 5, .dimension = 8, .clusters = 3, .seed = 4};
  const auto first = MakeLoadVectors(source), again = MakeLoadVectors(source);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->items, again->items);
  EXPECT_EQ(first->queries, again->queries);
  LoadSource other = source;
  other.seed = 5;
  EXPECT_NE(MakeLoadVectors(other)->items, first->items);
}

TEST(LoadReportTest, SaysWhatFailedAndWhenAnOpenLoopFellBehind) {
  LoadReport report;
  report.plan.rate = 1000;
  report.recall_queries = 10;
  LoadPoint& point = report.points.emplace_back();
  point.recall = 0.97;
  point.load.calls_a_second = 600;
  point.load.search = {.calls = 600, .failed = 3, .rate = 600, .ms = {1, 2, 3, 4, 5}, .error = "too much at once"};
  const std::string text = LoadText(report);
  EXPECT_THAT(text, HasSubstr("600 calls/s of the 1,000 asked for"));
  EXPECT_THAT(text, HasSubstr("first failure: too much at once"));
  EXPECT_THAT(text, HasSubstr("recall@10"));
  point.load.calls_a_second = 1000;
  EXPECT_THAT(LoadText(report), Not(HasSubstr("asked for")));
}

}  // namespace
}  // namespace lightcone::cli
