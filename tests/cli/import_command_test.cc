// `lightcone import` against a real server: rows that say which generation embedded them, and states of earlier
// imports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lightcone::cli
