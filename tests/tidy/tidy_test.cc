// The architecture, enforced: who may include whom, which third party lives in which room, how long files may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the repository root
  std::vector<std::string> lines;
};

std::string RoomOf(const std::string& path) {
  std::string room;
  const std::vector<std::string> two_levels = {"server/engine",  "server/rpc", "server/http",        "server/metrics",
                                               "server/options", "server/app", "server/embed_worker"};
  for (const std::string& prefix : two_levels) {
    if (path.starts_with(prefix + "/")) return prefix;
  }
  return path.substr(0, path.find('/'));
}

std::vector<SourceFile> AllSources() {
  std::vector<SourceFile> files;
  const fs::path root = LIGHTCONE_SOURCE_DIR;
  for (const char* room : {"base", "geometry", "stats", "models", "store", "index", "trainer", "research", "server",
                           "client", "cli", "tests", "bench"}) {
    if (!fs::exists(root / room)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cc" && extension != ".h" && extension != ".cu") continue;
      SourceFile file;
      file.path = fs::relative(entry.path(), root).string();
      std::istringstream text(ReadFile(entry.path().string()).value());
      for (std::string line; std::getline(text, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  return files;
}

const std::vector<SourceFile>& Sources() {
  static const std::vector<SourceFile> files = AllSources();
  return files;
}

std::vector<std::string> IncludesOf(const SourceFile& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> found;
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

TEST(House, RoomsIncludeOnlyWhatThePlanAllows) {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"base", {}},
      {"geometry", {"base"}},
      {"stats", {"base", "geometry"}},
      {"models", {"base", "geometry", "stats"}},
      {"store", {"base", "geometry"}},
      {"index", {"base", "geometry"}},
      {"trainer", {"base", "geometry", "stats", "models"}},
      {"research", {"base", "geometry", "stats", "models", "trainer"}},
      {"server/engine", {"base", "geometry", "stats", "models", "store", "index"}},
      {"server/embed_worker", {"base", "models", "server/engine"}},
      {"server/metrics", {"base", "server/engine", "geometry", "index", "store"}},
      {"server/rpc", {"base", "geometry", "stats", "index", "store", "server/engine", "server/metrics"}},
      {"server/http", {"base", "server/engine", "server/metrics"}},
      {"server/options", {"base", "server/engine", "index"}},
      {"server/app", {"base", "server/engine", "server/rpc", "server/http", "server/metrics", "server/options"}},
      {"client", {"base"}},
      {"cli",
       {"base", "geometry", "stats", "models", "trainer", "research", "client", "server/app", "server/options",
        "server/embed_worker"}},
  };
  for (const SourceFile& file : Sources()) {
    const std::string room = RoomOf(file.path);
    const auto rule = allowed.find(room);
    if (rule == allowed.end()) continue;
    for (const std::string& include : IncludesOf(file)) {
      const std::string target = RoomOf(include);
      if (!allowed.contains(target) || target == room) continue;
      EXPECT_TRUE(rule->second.contains(target)) << file.path << " includes " << include;
    }
  }
}

TEST(House, ThirdPartiesStayInTheirRooms) {
  const std::vector<std::pair<std::string, std::set<std::string>>> rules = {
      {"rocksdb/", {"store"}},
      {"faiss/", {"index"}},
      {"torch/", {"models", "trainer", "research"}},
      {"ATen/", {"models", "trainer", "research"}},
      {"grpcpp/", {"server/rpc", "client"}},
      {"lightcone/v1/", {"server/rpc", "client", "cli"}},
      {"prometheus/", {"server/metrics"}},
      {"httplib", {"server/http"}},
      {"hwy/", {"geometry", "index"}},
      {"roaring/", {"index"}},
  };
  for (const SourceFile& file : Sources()) {
    const std::string room = RoomOf(file.path);
    if (room == "tests" || room == "bench") continue;
    for (const std::string& include : IncludesOf(file)) {
      for (const auto& [prefix, rooms] : rules) {
        if (!include.starts_with(prefix)) continue;
        EXPECT_TRUE(rooms.contains(room)) << file.path << " includes " << include;
      }
    }
  }
}

TEST(House, TorchHeadersStayOutOfPublicHeaders) {
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") || file.path.ends_with("_torch.h")) continue;
    for (const std::string& include : IncludesOf(file)) {
      EXPECT_FALSE(include.starts_with("torch/")) << file.path << " includes " << include;
    }
  }
}

TEST(House, FilesHaveAtMostSixHundredLinesOfAtMostOneHundredAndFortyColumns) {
  for (const SourceFile& file : Sources()) {
    EXPECT_LE(file.lines.size(), 600u) << file.path;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(file.lines[i].size(), 140u) << file.path << ":" << i + 1;
    }
  }
}

TEST(House, HeadersBeginWithWhatTheyAreFor) {
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") || file.lines.empty()) continue;
    EXPECT_TRUE(file.lines[0].starts_with("//")) << file.path << " begins with: " << file.lines[0];
  }
}

TEST(House, NothingUnfinishedIsMarkedInTheSources) {
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

// A function's body is taken to begin at a line without indentation (or inside a namespace) that ends with '{' and to
// end at the next line that begins with '}'. Google style makes that exact for free and member functions in .cc files.
TEST(House, FunctionsHaveAtMostSeventyLines) {
  static const std::regex head(R"(^[A-Za-z_~].*\)( const| noexcept| override)*( :.*)? \{$)");
  for (const SourceFile& file : Sources()) {
    size_t start = 0;
    bool inside = false;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (!inside && std::regex_search(line, head) && !line.starts_with("namespace")) {
        inside = true;
        start = i;
      } else if (inside && line.starts_with("}")) {
        EXPECT_LE(i - start, 71u) << file.path << ":" << start + 1;
        inside = false;
      }
    }
  }
}

TEST(House, TheReadmeLinksOnlyToPagesThatExist) {
  const fs::path root = LIGHTCONE_SOURCE_DIR;
  static const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  for (const fs::path& page : {root / "README.md"}) {
    const std::string text = ReadFile(page.string()).value();
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(page.parent_path() / (*it)[1].str())) << page << " links to " << (*it)[1];
    }
  }
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = ReadFile(entry.path().string()).value();
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(entry.path().parent_path() / (*it)[1].str())) << entry.path() << " links to " << (*it)[1];
    }
  }
}

}  // namespace
}  // namespace lightcone
