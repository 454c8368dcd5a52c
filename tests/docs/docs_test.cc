// Pages that follow from something else: the table of benchmarks from results.json, the list of calls from the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>

#include "base/files.h"
#include "bench/published.h"

namespace lightcone::bench {
namespace {

using testing::HasSubstr;

std::string Text(const std::string& path) { return ReadFile(std::string(LIGHTCONE_SOURCE_DIR) + path).value(); }

TEST(Benchmarks, TheTableIsThatOfTheCommittedResults) {
  const std::string page = Text("/docs/benchmarks/README.md");
  EXPECT_EQ(PageWithTable(page, Text("/docs/benchmarks/results.json")).value(), page)
      << "write it again with lightcone_bench --publish docs/benchmarks";
}

TEST(Benchmarks, ARowTakesTheOneFigureThatHoldsAllItsParts) {
  const std::string rows = R"([{"what": "scan", "figure": ["scan, 1000 x", "memcpy"], "value": 1, "unit": "GiB/s",
      "peer": "memcpy", "peer_value": 2, "ratio": 0.5, "goal": "ratio >= 0.9", "met": false, "machine": "old"}])";
  Figure other;
  other.name = "scan, 500 x 8";
  other.value = 7;
  other.unit = "GiB/s";
  other.peer = "memcpy";
  const Figure measured{.name = "scan, 1000 x 8",
                        .value = 12345,
                        .unit = "GiB/s",
                        .peer = "memcpy",
                        .peer_value = 12.345,
                        .ratio = 1000,
                        .goal = "ratio >= 0.9",
                        .met = true};
  const std::string page = "# P\n<!-- table:begin (written by `make bench`) -->\n<!-- table:end -->\nend\n";

  const std::string kept = UpdatedRows(rows, {other}, "new").value();
  EXPECT_THAT(PageWithTable(page, kept).value(),
              HasSubstr("| scan | 1 GiB/s | memcpy: 2 GiB/s | 0.5 | ratio >= 0.9 | "
                        "**no** | A |\n\n- Machine A: old\n<!-- table:end -->\nend\n"));
  const std::string twice = UpdatedRows(rows, {measured, measured}, "new").value();
  EXPECT_EQ(twice, kept) << "two figures belong to the row";
  EXPECT_THAT(PageWithTable(page, UpdatedRows(rows, {other, measured}, "new").value()).value(),
              HasSubstr("| scan | 12,300 GiB/s | memcpy: 12.3 GiB/s | 1,000 | ratio >= 0.9 | yes | A |\n\n"
                        "- Machine A: new\n"));
  EXPECT_FALSE(PageWithTable("no markers", rows).ok());
}

TEST(Api, ThePageNamesEveryCallOfTheWire) {
  const std::string page = Text("/docs/reference/api.md");
  static const std::regex call(R"(  rpc (\w+)\()");
  int calls = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LIGHTCONE_SOURCE_DIR "/proto/lightcone/v1")) {
    const std::string wire = ReadFile(entry.path().string()).value();
    for (std::sregex_iterator it(wire.begin(), wire.end(), call), end; it != end; ++it, ++calls) {
      EXPECT_TRUE(std::regex_search(page, std::regex("\\| [\\w, ]*\\b" + (*it)[1].str() + "\\b[\\w, ]* \\|")))
          << entry.path() << ": " << (*it)[1];
    }
  }
  EXPECT_GT(calls, 30);
}

}  // namespace
}  // namespace lightcone::bench
