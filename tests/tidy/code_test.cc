// Rules of size and form that every source file keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/dcheck.h"
#include "base/files.h"
#include "tests/tidy/cpp_outline.h"
#include "tests/tidy/source_tree.h"

namespace lightcone::tidy {
namespace {

constexpr size_t kLinesOfFile = 600, kColumns = 120, kLinesOfFunction = 70;
constexpr size_t kMethods = 40, kGuardedFields = 15;
constexpr double kFragmentShare = 0.08;

TEST(Code, FilesHaveAtMostSixHundredLinesOfAtMostOneHundredAndTwentyColumns) {
  for (const SourceFile& file : Sources()) {
    EXPECT_LE(file.lines.size(), kLinesOfFile) << file.path;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(ColumnsOf(file.lines[i]), kColumns) << file.path << ":" << i + 1;
    }
  }
}

TEST(Code, EveryFileIsAsClangFormatWritesIt) {
  const std::string list = std::string(LIGHTCONE_BINARY_DIR) + "/tidy_files.txt";
  std::string paths;
  for (const SourceFile& file : Sources()) paths += std::string(LIGHTCONE_SOURCE_DIR) + "/" + file.path + "\n";
  ASSERT_TRUE(WriteFileAtomically(list, paths).ok());
  const std::string command = "xargs clang-format --style=file --dry-run -Werror < " + list + " 2>&1";
  FILE* const formatter = popen(command.c_str(), "r");
  ASSERT_NE(formatter, nullptr);
  std::string output;
  char buffer[4096];
  for (size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, formatter)) > 0;) output.append(buffer, read);
  EXPECT_EQ(pclose(formatter), 0) << output.substr(0, 4000);
}

TEST(Code, FunctionsHaveAtMostSeventyLines) {
  for (const SourceFile& file : Sources()) {
    for (const Function& function : OutlineOf(file.Text()).functions) {
      EXPECT_LE(function.Lines(), kLinesOfFunction) << file.path << ":" << function.first_line << " " << function.head;
    }
  }
}

TEST(Code, ClassesHaveAtMostFortyMethodsAndFifteenGuardedFields) {
  for (const SourceFile& file : Sources()) {
    for (const Class& one : OutlineOf(file.Text()).classes) {
      EXPECT_LE(one.methods, kMethods) << file.path << ":" << one.line << " " << one.name;
      EXPECT_LE(one.guarded_fields, kGuardedFields) << file.path << ":" << one.line << " " << one.name;
    }
  }
}

TEST(Code, TrailingCommentsAreNounPhrasesOrSentences) {
  size_t comments = 0, fragments = 0;
  std::string examples;
  for (const SourceFile& file : Sources()) {
    if (!IsProduct(file)) continue;
    for (const TrailingComment& comment : OutlineOf(file.Text()).comments) {
      ++comments;
      if (!IsFragment(comment.text)) continue;
      ++fragments;
      examples += file.path + ":" + std::to_string(comment.line) + ": " + comment.text + "\n";
    }
  }
  EXPECT_LT(static_cast<double>(fragments), kFragmentShare * static_cast<double>(comments)) << examples;
}

TEST(Code, HeadersBeginWithWhatTheyAreFor) {
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") || file.lines.empty()) continue;
    EXPECT_TRUE(file.lines[0].starts_with("//")) << file.path << " begins with: " << file.lines[0];
  }
}

// The check stands in the file, in a file of its folder that includes it, or in a part that it includes and hands on
// to.
TEST(Code, WhatIsRequiredIsChecked) {
  static const std::regex check("LC_DCHECK|AssertHeld|AssertReaderHeld|LOCKS_REQUIRED");
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  std::map<std::string, bool> checked;
  std::map<std::string, std::vector<std::string>> parts;  // headers of the same folder that a file includes
  std::set<std::string> demand;
  for (const SourceFile& file : Sources()) {
    if (!IsProduct(file)) continue;
    const std::string text = file.Text();
    if (text.find("REQUIRES:") != std::string::npos) demand.insert(file.path);
    checked[file.path] |= std::regex_search(text, check);
    for (const std::string& include : IncludesOf(file)) {
      if (folder_of(include) == folder_of(file.path)) parts[file.path].push_back(include);
    }
  }
  for (const auto& [path, includes] : parts) {
    if (path.ends_with(".cc") && checked[path]) {
      for (const std::string& include : includes) checked[include] = true;
    }
  }
  for (const std::string& path : demand) {
    bool found = checked[path];
    for (const std::string& part : parts[path]) found |= checked[part];
    for (const auto& [user, includes] : parts) {
      found |= checked[user] && std::find(includes.begin(), includes.end(), path) != includes.end();
    }
    EXPECT_TRUE(found) << path << " says REQUIRES: and checks nothing";
  }
}

TEST(Code, NothingUnfinishedIsMarkedInTheSources) {
  // Spelled in halves, so that this file does not find itself.
  static const std::regex marks(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|GTEST_" + "SKIP|DISABLED" + "_)");
  for (const SourceFile& file : Sources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch mark;
      if (std::regex_search(file.lines[i], mark, marks) &&
          file.lines[i].find(std::string(6, 'X')) == std::string::npos) {
        ADD_FAILURE() << file.path << ":" << i + 1 << ": " << mark[0];
      }
    }
  }
}

}  // namespace
}  // namespace lightcone::tidy
