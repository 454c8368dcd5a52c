// The demo with texts: what it refuses of a folder of texts and embeddings, and the whole of it on a small one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/npy.h"
#include "base/rng.h"
#include "base/status.h"
#include "cli/demo/demo.h"
#include "cli/demo/text_data.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kLabels = 8, kOldNumbers = 12, kNewNumbers = 20;

// A folder of texts: each label is a direction, which the old model blurs more than the new one.
class TextFolder {
 public:
  explicit TextFolder(std::string path) : path_(std::move(path)) {
    EXPECT_TRUE(MakeFolders(path_).ok());
    Write("gallery", 320, 1);
    Write("queries", 90, 2);
  }

  std::string FileOf(const std::string& name) const { return path_ + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(WriteFileAtomically(FileOf(name), bytes).ok());
  }
  void PutRows(const std::string& name, int64_t dimension, const std::vector<float>& z) const {
    const std::string_view bytes(reinterpret_cast<const char*>(z.data()), z.size() * sizeof(float));
    Put(name, EncodeNpy(NpyType::kFloat32, {static_cast<int64_t>(z.size()) / dimension, dimension}, bytes));
  }
  static std::string Line(int i) {
    return StrCat("{\"id\": ", i, ", \"label\": \"topic ", i % kLabels, "\", \"text\": \"sentence <", i, ">\"}\n");
  }

 private:
  void Write(const std::string& part, int count, uint64_t seed) const {
    Rng rng(seed);
    std::string lines;
    std::vector<float> older, newer;
    for (int i = 0; i < count; ++i) {
      lines += Line(i);
      // The second row of each file has no direction by the old model, and the third none by the new one.
      for (int n = 0; n < kNewNumbers; ++n) {
        const double signal = n % kLabels == i % kLabels ? 1 : 0;
        const double noise = rng.Normal();
        newer.push_back(i == 2 ? 0 : static_cast<float>(signal + 0.2 * noise));
        if (n < kOldNumbers) older.push_back(i == 1 ? 0 : static_cast<float>(signal + 0.6 * noise));
      }
    }
    Put(part + ".jsonl", lines);
    PutRows(part + ".small.npy", kOldNumbers, older);
    PutRows(part + ".large.npy", kNewNumbers, newer);
  }

  const std::string path_;
};

class TextDemoTest : public testing::Test {
 protected:
  std::string Refusal(const std::string& old_model = "", const std::string& new_model = "") const {
    return MessageOf(ReadTextData(path_, old_model, new_model).status());
  }
  // What a demo of at least one pair too few or too many says.
  std::string RefusalOfPairs(int64_t pairs) const {
    std::FILE* out = std::tmpfile();
    const absl::Status status =
        RunDemo({.data = "text:" + path_, .folder = scratch_ / "demo", .binary = Binary(), .pairs = pairs}, out)
            .status();
    std::fclose(out);
    return MessageOf(status);
  }

  TemporaryFolder scratch_;
  const std::string path_ = scratch_ / "texts";
  const TextFolder folder_{path_};
};

TEST_F(TextDemoTest, TheShorterModelIsTheOldOneUnlessNamesSayOtherwise) {
  const auto data = ReadTextData(path_, "", "");
  ASSERT_TRUE(data.ok()) << MessageOf(data.status());
  EXPECT_EQ(data->old_model.name, "small");
  EXPECT_EQ(data->new_model.name, "large");
  EXPECT_EQ(data->old_model.dimension, kOldNumbers);
  EXPECT_EQ(data->gallery.size(), 320u);
  EXPECT_EQ(data->gallery[3].text, "sentence <3>");
  EXPECT_EQ(data->label_names[static_cast<size_t>(data->query_labels[9])], "topic 1");
  EXPECT_EQ(data->old_model.gallery.zeros, 1);
  EXPECT_EQ(data->old_model.gallery.zero[1], 1);
  EXPECT_EQ(data->new_model.queries.zero[2], 1);
  EXPECT_THAT(Refusal("large"), HasSubstr("no model has more numbers than 'large'"));
  EXPECT_TRUE(ReadTextData(path_, "large", "small").ok()) << "named, any order goes";
}

TEST_F(TextDemoTest, HalvesAreReadAsWellAsFloats) {
  folder_.Put("queries.small.npy", EncodeNpy(NpyType::kFloat16, {90, kOldNumbers}, std::string(90 * 12 * 2, '\x3c')));
  const auto data = ReadTextData(path_, "", "");
  ASSERT_TRUE(data.ok()) << MessageOf(data.status());
  EXPECT_NEAR(data->old_model.queries.z[0], 1.0586, 1e-3);
}

TEST_F(TextDemoTest, ModelsThatAreNotThereAreRefusedWithThoseThatAre) {
  EXPECT_THAT(Refusal("medium"), AllOf(HasSubstr("field '--old' is 'medium'"), HasSubstr("large, small")));
  EXPECT_THAT(Refusal("", "medium"), AllOf(HasSubstr("field '--new' is 'medium'"), HasSubstr("large, small")));
  EXPECT_THAT(Refusal("small", "small"), AllOf(HasSubstr("field '--new' is 'small'"), HasSubstr("another model")));
  ASSERT_TRUE(std::filesystem::remove(folder_.FileOf("gallery.large.npy")));
  EXPECT_THAT(Refusal("small", "large"), HasSubstr("gallery.large.npy")) << "the missing file has its name";
  ASSERT_TRUE(std::filesystem::remove(folder_.FileOf("queries.large.npy")));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("is small; allowed: two or more"), HasSubstr("gallery.MODEL.npy")));
  EXPECT_EQ(ReadTextData(scratch_ / "nowhere", "", "").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TextDemoTest, BadLinesAreNamed) {
  const std::string path = "'" + folder_.FileOf("queries.jsonl") + "' line 2";
  const auto refusal_of = [&](const std::string& line) {
    folder_.Put("queries.jsonl", TextFolder::Line(0) + line + "\n");
    return Refusal();
  };
  EXPECT_THAT(refusal_of(R"({"id": 0, "label": "a", "text": "b"})"),
              AllOf(HasSubstr(path), HasSubstr("0 again"), HasSubstr("line 1 has it")));
  EXPECT_THAT(refusal_of(R"({"label": "a", "text": "b"})"), AllOf(HasSubstr(path), HasSubstr("'id' is absent")));
  EXPECT_THAT(refusal_of(R"({"id": 1, "text": "b"})"), AllOf(HasSubstr(path), HasSubstr("'label' is absent")));
  EXPECT_THAT(refusal_of(R"({"id": 1, "label": [], "text": "b"})"), HasSubstr("a text or an integer"));
  EXPECT_THAT(refusal_of(R"({"id": 1, "label": "a", "text": 7})"), AllOf(HasSubstr(path), HasSubstr("'text' is 7")));
  EXPECT_THAT(refusal_of("{"), AllOf(HasSubstr(path), HasSubstr("not a JSON value")));
  EXPECT_THAT(refusal_of(""), HasSubstr(path)) << "an empty line has no row";
  ASSERT_TRUE(std::filesystem::remove(folder_.FileOf("queries.jsonl")));
  EXPECT_THAT(Refusal(), HasSubstr("queries.jsonl"));
}

TEST_F(TextDemoTest, BadRowsAreNamed) {
  const std::string file = folder_.FileOf("queries.large.npy");
  std::vector<float> z(89 * kNewNumbers, 1.0F);
  folder_.PutRows("queries.large.npy", kNewNumbers, z);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("'" + file + "'"), HasSubstr("is 89 rows; allowed: 90 rows"),
                               HasSubstr("queries.jsonl")));
  z.resize(90 * kNewNumbers, 1.0F);
  z[7 * kNewNumbers + 3] = std::nanf("");
  folder_.PutRows("queries.large.npy", kNewNumbers, z);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("'" + file + "' row 7 number 3"), HasSubstr("is NaN")));
  z[7 * kNewNumbers + 3] = -std::numeric_limits<float>::infinity();
  folder_.PutRows("queries.large.npy", kNewNumbers, z);
  EXPECT_THAT(Refusal(), HasSubstr("is -infinite; allowed: finite numbers"));
  folder_.PutRows("queries.large.npy", 2 * kNewNumbers, std::vector<float>(180 * kNewNumbers, 1.0F));
  EXPECT_THAT(Refusal(), HasSubstr("is 40 numbers a row; allowed: 20"));
  folder_.Put("queries.large.npy", EncodeNpy(NpyType::kInt64, {90, 1}, std::string(90 * 8, '\0')));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("is int64 of shape (90, 1)"), HasSubstr("float16 or float32")));
  folder_.Put("queries.large.npy", "no npy at all");
  EXPECT_THAT(Refusal(), HasSubstr(file));
}

TEST_F(TextDemoTest, FewerThanSixtyFourPairsOrMoreThanThereAreAreRefused) {
  EXPECT_THAT(RefusalOfPairs(63), HasSubstr("field '--pairs' is 63; allowed: 64 .. 318"));
  EXPECT_THAT(RefusalOfPairs(319), HasSubstr("field '--pairs' is 319; allowed: 64 .. 318"));
}

TEST_F(TextDemoTest, FlagsOfTextsAreRefusedWithImages) {
  const Outcome outcome = RunHere(scratch_, {"demo", "--dir", scratch_ / "demo", "--pairs", "100"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--pairs"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "demo"));
}

TEST_F(TextDemoTest, TheWholeOfItRunsOnASmallFolder) {
  const std::string demo = scratch_ / "demo";
  const Outcome outcome =
      RunBinary(scratch_, {"demo", "--data", "text:" + path_, "--dir", demo, "--pairs", "100", "--json", "-"},
                {"OMP_NUM_THREADS=1"}, absl::Minutes(5));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  std::map<std::string, nlohmann::json> row_of;
  std::vector<std::string> rows;
  for (const auto& row : json["rows"]) {
    rows.push_back(StrCat(row["query"].get<std::string>(), " on ", row["gallery"].get<std::string>()));
    row_of[rows.back()] = row;
    for (const char* figure : {"cmc1", "p10", "mrr10", "ndcg10", "map", "recall10"}) {
      ASSERT_TRUE(row.contains(figure)) << rows.back() << " " << figure;
      EXPECT_GE(row[figure].get<double>(), 0) << rows.back() << " " << figure;
      EXPECT_LE(row[figure].get<double>(), 1) << rows.back() << " " << figure;
    }
  }
  EXPECT_THAT(rows, ElementsAre("old on old", "new on old", "both on old", "new on new"));
  EXPECT_EQ(row_of["new on new"]["recall10"], 1.0) << "its own nearest are the truth";
  EXPECT_GT(row_of["new on new"]["map"].get<double>(), row_of["old on old"]["map"].get<double>());
  EXPECT_GT(row_of["new on old"]["map"].get<double>(), 2.0 / kLabels) << "the adapter is no guess";
  EXPECT_EQ(json["pairs"], 100);
  EXPECT_EQ(json["reembedded_items"], 100);
  EXPECT_EQ(json["probes"], 29) << "a third of those with a direction";
  EXPECT_EQ(json["queries"], 59);
  EXPECT_EQ(json["gallery_items"], 320);
  EXPECT_EQ(json["left_out"]["gallery_old"], 1);
  EXPECT_EQ(json["left_out"]["gallery_new"], 1);
  EXPECT_EQ(json["left_out"]["queries"], 2);
  EXPECT_EQ(json["restart_identical"], true);
  EXPECT_EQ(json["old_model"]["name"], "small");
  EXPECT_EQ(json["gate"]["forced"], !json["gate"]["passed"].get<bool>());
  EXPECT_GT(json["rollback_ms"].get<double>(), 0);
  const auto& curve = json["backfill_curve"];
  std::vector<double> shares;
  for (const auto& point : curve) shares.push_back(point["share"]);
  ASSERT_THAT(shares, ElementsAre(0, 0.1, 0.25, 0.5, 0.75, 1));
  EXPECT_NEAR(curve[0]["map"].get<double>(), row_of["both on old"]["map"].get<double>(), 1e-9);
  EXPECT_NEAR(curve[5]["map"].get<double>(), row_of["new on new"]["map"].get<double>(), 0.02);
  EXPECT_EQ(curve[0]["embedded"], 100);
  EXPECT_EQ(curve[5]["embedded"], 319) << "all but the text without a direction by the new model";
  EXPECT_THAT(outcome.err, HasSubstr("rows of zeros have no direction and were left out: 1 texts of the old model"));
  const std::string page = ReadFile(demo + "/report.html").value();
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</body></html>\n"));
  EXPECT_THAT(page, AllOf(HasSubstr("queries with both vectors, old gallery"), Not(HasSubstr("sentence <"))));
}

TEST_F(TextDemoTest, ItsPageShowsSentencesThatWereRightOrWrong) {
  DemoResult result;
  result.dataset = "text:/texts";
  result.rows = {{"both", "old", 0.5, 0.75, 0.25, "Search", 0.4, 0.6, 0.45, 0.3}};
  TextStory story;
  story.gate_summary = "worse by <0.1>";
  story.examples = {{"card", "where is my <card>?", {{"pin", "I lost my PIN", false}}, {{"card", "my card?", true}}}};
  result.text = story;
  const std::string page = TextDemoHtml(result), table = TextDemoTable(result);
  EXPECT_THAT(page, HasSubstr("where is my &lt;card&gt;?"));
  EXPECT_THAT(page, HasSubstr("<div class='wrong'>wrong: I lost my PIN"));
  EXPECT_THAT(page, HasSubstr("<div class='right'>right: my card?"));
  EXPECT_THAT(page, HasSubstr("worse by &lt;0.1&gt;"));
  EXPECT_THAT(table,
              HasSubstr("  both        old          0.500   0.400   0.600    0.450   0.250      0.300  queries "));
  EXPECT_THAT(table, HasSubstr("the gate of 0 probes refused"));
}

}  // namespace
}  // namespace lightcone::cli
