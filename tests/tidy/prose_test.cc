// Rules that hold the pages readable: their length, their sentences, their links, and that they are no diary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace lightcone::tidy {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWordsOfPage = 1'500, kWordsOfBenchmarks = 3'000, kColumns = 120;
constexpr double kWordsOfSentence = 22.0;

bool IsTable(const std::string& line) { return line.starts_with("|"); }

size_t Words(const std::string& text) {
  std::istringstream words(text);
  size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

// Sentences of a page's running text; code blocks, tables and headings are none.
std::vector<std::string> Sentences(const SourceFile& page) {
  static const std::regex item(R"(^\s*([-*]|\d+\.)\s+)"), code(R"(`[^`]*`)"), target(R"(\]\([^)]*\))");
  std::vector<std::string> sentences(1);
  bool in_code = false;
  for (std::string line : page.lines) {
    if (line.starts_with("```")) in_code = !in_code;
    const bool is_text = !in_code && !line.starts_with("```") && !line.starts_with("#") && !IsTable(line);
    if (!is_text || line.empty() || std::regex_search(line, item)) sentences.emplace_back();
    if (!is_text) continue;
    line = std::regex_replace(line, item, "");
    line = std::regex_replace(std::regex_replace(line, code, "code"), target, "]");
    for (size_t i = 0; i < line.size(); ++i) {
      sentences.back() += line[i];
      const bool ends = std::string(".!?").find(line[i]) != std::string::npos;
      if (ends && (i + 1 == line.size() || line[i + 1] == ' ')) sentences.emplace_back();
    }
    sentences.back() += ' ';
  }
  std::erase_if(sentences, [](const std::string& sentence) { return Words(sentence) == 0; });
  return sentences;
}

double MeanSentence(const SourceFile& page) {
  const std::vector<std::string> sentences = Sentences(page);
  size_t words = 0;
  for (const std::string& sentence : sentences) words += Words(sentence);
  return sentences.empty() ? 0.0 : static_cast<double>(words) / static_cast<double>(sentences.size());
}

TEST(Prose, SentencesAreCountedWithoutCodeTablesAndHeadings) {
  const SourceFile page{"docs/a.md",
                        {"# A heading of five words", "", "One two `three four`. Five six", "seven eight.", "",
                         "- nine ten", "- eleven", "", "| a | table |", "```", "lightcone serve. Now.", "```"}};
  EXPECT_THAT(Sentences(page).size(), 4u);
  EXPECT_DOUBLE_EQ(MeanSentence(page), (3 + 4 + 2 + 1) / 4.0);
}

TEST(Prose, PagesHaveAtMostFifteenHundredWords) {
  size_t benchmarks = 0;
  for (const SourceFile& page : Pages()) {
    const size_t words = Words(page.Text());
    if (page.path.starts_with("docs/benchmarks")) benchmarks += words;
    EXPECT_LE(words, kWordsOfPage) << page.path;
  }
  EXPECT_LE(benchmarks, kWordsOfBenchmarks) << "docs/benchmarks";
}

TEST(Prose, SentencesHaveAMeanOfAtMostTwentyTwoWords) {
  for (const SourceFile& page : Pages()) EXPECT_LE(MeanSentence(page), kWordsOfSentence) << page.path;
}

TEST(Prose, LinesOutsideTablesHaveAtMostOneHundredAndTwentyColumns) {
  for (const SourceFile& page : Pages()) {
    for (size_t i = 0; i < page.lines.size(); ++i) {
      if (IsTable(page.lines[i])) continue;
      EXPECT_LE(ColumnsOf(page.lines[i]), kColumns) << page.path << ":" << i + 1;
    }
  }
}

TEST(Prose, NoPageIsADiary) {
  static const std::regex diary(
      R"(\b20\d\d-\d\d-\d\d\b|that (night|evening|morning)|the (week|day) before|\b[0-9a-f]{7} on that)");
  for (const SourceFile& page : Pages()) {
    if (page.path.starts_with("docs/benchmarks/")) continue;
    for (size_t i = 0; i < page.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(page.lines[i], diary)) << page.path << ":" << i + 1 << ": " << page.lines[i];
    }
  }
}

TEST(Prose, DecimalsHaveALeadingZero) {
  static const std::regex bare(R"((^|[\s(|])\.\d)");
  for (const SourceFile& page : Pages()) {
    for (size_t i = 0; i < page.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(page.lines[i], bare)) << page.path << ":" << i + 1 << ": " << page.lines[i];
    }
  }
}

// The anchors of a page, as GitHub makes them of its headings.
std::string AnchorOf(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(std::min(heading.size(), heading.find_first_not_of("# ")))) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

bool HasAnchor(const std::string& path, const std::string& anchor) {
  for (const SourceFile& page : Pages()) {
    if (page.path != path) continue;
    for (const std::string& line : page.lines) {
      if (line.starts_with("#") && AnchorOf(line) == anchor) return true;
    }
  }
  return false;
}

TEST(Prose, PagesLinkOnlyToPagesAndHeadingsThatExist) {
  static const std::regex link(R"(\]\(([^)#:\s]*)(#([^)\s]*))?\))");
  const fs::path root = LIGHTCONE_SOURCE_DIR;
  for (const SourceFile& page : Pages()) {
    const std::string text = page.Text();
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1], anchor = (*it)[3];
      const fs::path path = target.empty() ? root / page.path : (root / page.path).parent_path() / target;
      EXPECT_TRUE(fs::exists(path)) << page.path << " links to " << target;
      const std::string relative = path.lexically_normal().lexically_relative(root).string();
      if (!anchor.empty() && relative.ends_with(".md")) {
        EXPECT_TRUE(HasAnchor(relative, anchor)) << page.path << " links to " << target << "#" << anchor;
      }
    }
  }
}

// Pages that comments, messages, alerts and scripts name.
TEST(Prose, SourcesNameOnlyPagesThatExist) {
  static const std::regex mention(R"(\bdocs/[A-Za-z0-9_./-]+\.md)");
  for (const SourceFile& file : Sources()) {
    if (!IsProduct(file)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch found;
      if (!std::regex_search(file.lines[i], found, mention)) continue;
      EXPECT_TRUE(fs::exists(fs::path(LIGHTCONE_SOURCE_DIR) / found[0].str()))
          << file.path << ":" << i + 1 << " " << found[0];
    }
  }
}

}  // namespace
}  // namespace lightcone::tidy
