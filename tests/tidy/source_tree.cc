#include "tests/tidy/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "base/files.h"

namespace lightcone::tidy {
namespace {

namespace fs = std::filesystem;

SourceFile Read(const fs::path& path) {
  SourceFile file;
  file.path = fs::relative(path, LIGHTCONE_SOURCE_DIR).string();
  std::istringstream text(ReadFile(path.string()).value());
  for (std::string line; std::getline(text, line);) file.lines.push_back(line);
  return file;
}

void ReadFolder(const fs::path& folder, const std::set<std::string>& extensions, std::vector<SourceFile>& files) {
  if (!fs::exists(folder)) return;
  for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
    if (entry->path().filename() == "node_modules") entry.disable_recursion_pending();
    if (extensions.contains(entry->path().extension().string())) files.push_back(Read(entry->path()));
  }
}

std::vector<SourceFile> Sorted(std::vector<SourceFile> files) {
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace

std::string SourceFile::Text() const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

const std::vector<SourceFile>& Sources() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> found;
    for (const char* room : {"base", "geometry", "stats", "models", "outbound", "snapshot", "store", "index", "trainer",
                             "research", "server", "client", "cli", "tests", "bench"}) {
      ReadFolder(fs::path(LIGHTCONE_SOURCE_DIR) / room, {".cc", ".h", ".cu"}, found);
    }
    return Sorted(std::move(found));
  }();
  return files;
}

const std::vector<SourceFile>& Pages() {
  static const std::vector<SourceFile> files = [] {
    const fs::path root = LIGHTCONE_SOURCE_DIR;
    std::vector<SourceFile> found;
    for (const char* folder : {"docs", "research"}) ReadFolder(root / folder, {".md"}, found);
    for (const auto& entry : fs::directory_iterator(root)) {
      if (entry.path().extension() == ".md") found.push_back(Read(entry.path()));
    }
    return Sorted(std::move(found));
  }();
  return files;
}

bool IsProduct(const SourceFile& file) { return !file.path.starts_with("tests/") && !file.path.starts_with("bench/"); }

std::string RoomOf(std::string_view path) {
  const size_t first = path.find('/');
  const std::string_view top = path.substr(0, first);
  if (top != "server" || first == std::string_view::npos) return std::string(top);
  return std::string(path.substr(0, path.find('/', first + 1)));
}

std::string FolderOf(std::string_view path) {
  const std::string room = RoomOf(path);
  if (path.size() <= room.size()) return "";
  const std::string_view rest = path.substr(room.size() + 1);
  const size_t slash = rest.find('/');
  return slash == std::string_view::npos ? "" : std::string(rest.substr(0, slash));
}

std::vector<std::string> IncludesOf(const SourceFile& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> found;
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (line.find('#') != std::string::npos && std::regex_search(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

size_t ColumnsOf(std::string_view line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace lightcone::tidy
