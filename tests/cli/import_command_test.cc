// `lightcone import` against a real server: rows that say which generation embedded them, and states of earlier
// imports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "tests/cli/served_test.h"

namespace lightcone::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImportCommand : public ServedTest {
 protected:
  void Must(std::vector<std::string> words) {
    const std::string line = StrCat(words[0], " ", words[1], " ", words[2]);
    const Outcome outcome = Run(std::move(words));
    ASSERT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err;
  }
  // With so many generations of dimension 2, of which the last is active.
  void MakeCollection(const std::string& name, int generations) {
    Must({"collection", "create", name, "--geometry", "euclidean"});
    for (int i = 1; i <= generations; ++i) {
      Must({"generation", "register", name, "--dimension", "2", "--parent", StrCat(i - 1), "--activate"});
    }
  }
  // "id:generation " of every item.
  std::string Embedded(const std::string& name) {
    std::string text;
    std::istringstream all(Run({"scroll", name, "--limit", "0", "--json"}).out);
    for (std::string line; std::getline(all, line);) {
      const auto item = nlohmann::json::parse(line);
      text += StrCat(item["id"].dump(), ":", item["generation"].dump(), " ");
    }
    return text;
  }
  static std::string Rows(int from, int to, const std::string& more = "") {
    std::string lines;
    for (int i = from; i < to; ++i) lines += StrCat("{\"id\":", i, more, ",\"vector\":[", i, ",1]}\n");
    return lines;
  }
};

TEST_F(ImportCommand, ARowOfAnotherGenerationIsRefusedAndTheWaysOutAreOpen) {
  MakeCollection("mixed", 1);
  Must({"import", "mixed", Put("old.jsonl", Rows(0, 3))});
  Must({"generation", "register", "mixed", "--dimension", "2", "--parent", "1", "--activate"});
  Must({"import", "mixed", Put("new.jsonl", Rows(3, 5))});
  ASSERT_EQ(Embedded("mixed"), "0:1 1:1 2:1 3:2 4:2 ");
  for (const std::string extension : {"npy", "jsonl"}) {
    const std::string copy = "copy-" + extension;
    MakeCollection(copy, 2);
    const auto import = [&](const std::string& file, std::vector<std::string> flags) {
      flags.insert(flags.begin(), {"import", copy, scratch_ / (file + "." + extension)});
      if (extension == "npy") flags.insert(flags.end(), {"--ids", scratch_ / (file + ".ids.jsonl")});
      return Run(flags);
    };
    Must({"export", "mixed", scratch_ / ("all." + extension)});
    const Outcome refused = import("all", {});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("field 'row 0 generation' is 1; allowed: 2, the active one"),
                                   HasSubstr("--generation 1 imports"), HasSubstr("--filter '$generation = N'"),
                                   HasSubstr("--ignore-generation")));
    EXPECT_EQ(Embedded(copy), "");
    const Outcome part = import("all", {"--generation", "1"});
    EXPECT_EQ(part.exit_code, 2);
    EXPECT_THAT(part.err, AllOf(HasSubstr("field 'row 3 generation' is 2; allowed: 1 (--generation)"),
                                HasSubstr("rows up to 3 are written")));
    Must({"export", "mixed", scratch_ / ("newer." + extension), "--filter", "$generation = 2"});
    const Outcome newer = import("newer", {});
    EXPECT_EQ(newer.exit_code, 0) << newer.err;
    EXPECT_EQ(Embedded(copy), Embedded("mixed")) << extension;
    // A collection that numbers the same model otherwise.
    const std::string renumbered = "renumbered-" + extension;
    MakeCollection(renumbered, 1);
    std::vector<std::string> words = {"import", renumbered, scratch_ / ("newer." + extension), "--ignore-generation"};
    if (extension == "npy") words.insert(words.end(), {"--ids", scratch_ / "newer.ids.jsonl"});
    Must(words);
    EXPECT_EQ(Embedded(renumbered), "3:1 4:1 ");
  }
}

TEST_F(ImportCommand, AStateOfOtherRowsOrAnotherCollectionIsRefusedAndStaysAsItIs) {
  MakeCollection("stated", 1);
  MakeCollection("unstated", 1);
  const std::string state = scratch_ / "import.state", first = Put("first.jsonl", Rows(0, 10));
  Must({"import", "stated", first, "--state", state});
  const std::string kept = ReadFile(state).value();
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), "import");
    words.insert(words.end(), {"--state", state});
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 5) << why;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(why), HasSubstr("give this import a --state of its own")));
    EXPECT_EQ(ReadFile(state).value(), kept) << why;
    EXPECT_EQ(Run({"count", "stated", "--json"}).json()["count"], 10);
  };
  const std::string rows = "before row 10 are not those that were imported from '" + first + "'";
  refused({"stated", Put("other.jsonl", Rows(100, 130))}, rows);
  refused({"stated", Put("changed.jsonl", Rows(0, 9) + Rows(9, 20, ",\"payload\":{\"a\":1}"))}, rows);
  refused({"stated", Put("short.jsonl", Rows(0, 9))}, rows);
  refused({"unstated", first}, "its collection is 'stated', this one's is 'unstated'");
  refused({"stated", first, "--generation", "1"}, "its --generation is 0, this one's is 1");
  // The same rows, and more, under another name.
  const Outcome longer = Run({"import", "stated", Put("longer.jsonl", Rows(0, 15)), "--state", state, "--json"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(longer.json()["rows"], 5);
  EXPECT_EQ(Run({"count", "stated", "--json"}).json()["count"], 15);
}

TEST_F(ImportCommand, OfRowsWithOneIdTheLastWinsWhateverTheBatch) {
  std::string rows;
  for (int i = 0; i < 280; ++i)
    rows += StrCat("{\"id\":", i % 7, ",\"vector\":[", i, ",1],\"payload\":{\"n\":", i, "}}\n");
  const std::string file = Put("repeating.jsonl", rows);
  for (const std::string batch : {"1", "5", "10", "500"}) {
    const std::string name = "repeating-" + batch;
    MakeCollection(name, 1);
    const Outcome outcome = Run({"import", name, file, "--batch", batch, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["rows"], 280);
    EXPECT_EQ(outcome.json()["repeated"], 273);
    EXPECT_EQ(outcome.json()["next_row"], 280);
    EXPECT_EQ(Run({"count", name, "--json"}).json()["count"], 7);
    EXPECT_EQ(Run({"count", name, "--filter", "n >= 273", "--json"}).json()["count"], 7)
        << "the last rows, batch " << batch;
  }
  MakeCollection("unrepeated", 1);
  const Outcome refused = Run({"import", "unrepeated", file, "--duplicates", "error"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("row 7 id' is 0 again"), HasSubstr("rows up to 7 are written")));
  EXPECT_EQ(Run({"import", "unrepeated", file, "--duplicates", "first"}).exit_code, 2);
}

TEST_F(ImportCommand, AFieldThatNothingIsMadeOfIsRefusedByName) {
  MakeCollection("fields", 1);
  const std::string file = Put("fields.jsonl", "{\"id\":\"a\",\"vector\":[1,2],\"metadata\":{\"k\":1}}\n");
  const Outcome refused = Run({"import", "fields", file});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("line 1"), HasSubstr("metadata"), HasSubstr("--ignore-fields")));
  EXPECT_EQ(Run({"count", "fields", "--json"}).json()["count"], 0);
  EXPECT_EQ(Run({"import", "fields", file, "--ignore-fields"}).exit_code, 0);
  EXPECT_EQ(Run({"count", "fields", "--filter", "exists(metadata)", "--json"}).json()["count"], 0);
  EXPECT_EQ(Run({"import", "fields", file, "--payload-fields", "metadata"}).exit_code, 0);
  EXPECT_EQ(Run({"count", "fields", "--filter", "metadata.k = 1", "--json"}).json()["count"], 1);
}

TEST_F(ImportCommand, RefusedRowsGoIntoAFileWithTheReasonAndTheRestIsImported) {
  Must({"collection", "create", "skipping", "--geometry", "cosine"});
  Must({"generation", "register", "skipping", "--dimension", "2", "--activate"});
  // Refused by the server (a zero vector, another dimension) and by the reader (no JSON, no id, a foreign field).
  const std::string rows = Rows(1, 4) + "{\"id\":100,\"vector\":[0,0]}\n" + Rows(4, 6) +
                           "{\"id\":101,\"vector\":[NaN,1]}\n" + "{\"id\":102,\"vector\":[1,2,3]}\n" +
                           "{\"vector\":[1,2]}\n" + "{\"id\":103,\"vector\":[1,2],\"odd\":1}\n" + Rows(6, 9);
  const std::string file = Put("skipping.jsonl", rows), skipped = scratch_ / "skipped.jsonl";
  for (const std::string batch : {"1", "4", "500"}) {
    const Outcome outcome = Run({"import", "skipping", file, "--skip-invalid", skipped, "--batch", batch, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["rows"], 8);
    EXPECT_EQ(outcome.json()["skipped"], 5);
    EXPECT_EQ(outcome.json()["next_row"], 13);
    std::vector<int> numbers;
    std::istringstream lines(ReadFile(skipped).value());
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      numbers.push_back(json["row"]);
      EXPECT_FALSE(json["reason"].get<std::string>().empty());
      EXPECT_TRUE(json["text"].get<std::string>().starts_with("{\"")) << line;
    }
    EXPECT_THAT(numbers, ::testing::UnorderedElementsAre(3, 6, 7, 8, 9)) << "batch " << batch;
    EXPECT_EQ(Run({"count", "skipping", "--json"}).json()["count"], 8);
  }
  const Outcome stopped = Run({"import", "skipping", file});
  EXPECT_EQ(stopped.exit_code, 2);
  EXPECT_THAT(stopped.err, HasSubstr("with --skip-invalid FILE to leave out such rows"));
  // A state passes over what was left out, and the file is added to.
  const std::string state = scratch_ / "skipping.state";
  Must({"import", "skipping", file, "--skip-invalid", skipped, "--state", state, "--limit", "8"});
  const Outcome rest = Run({"import", "skipping", file, "--skip-invalid", skipped, "--state", state, "--json"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(rest.json()["rows"], 3);
  EXPECT_EQ(rest.json()["skipped"], 2);
  const std::string all = ReadFile(skipped).value();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 5);
}

}  // namespace
}  // namespace lightcone::cli
