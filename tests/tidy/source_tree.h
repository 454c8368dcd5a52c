// The tree's own files, as the rules of tests/tidy read them. Threads: read once, then constant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lightcone::tidy {

struct SourceFile {
  std::string path;  // relative to the repository's root
  std::vector<std::string> lines;

  std::string Text() const;
};

// C++ and CUDA files of every room, tests and benchmarks included.
const std::vector<SourceFile>& Sources();
// Markdown pages: docs/, research/ and those in the root.
const std::vector<SourceFile>& Pages();
// Whether users run the file's code: it is neither a test nor a benchmark.
bool IsProduct(const SourceFile& file);

// "server/engine" or "index": the unit of the plan's include rules.
std::string RoomOf(std::string_view path);
// The folder below the room: "rollout" of "server/engine/rollout/activation.h". Empty for a file that lies in the room
// itself.
std::string FolderOf(std::string_view path);
// Paths that the file's include directives name.
std::vector<std::string> IncludesOf(const SourceFile& file);
// Characters of a line of UTF-8.
size_t ColumnsOf(std::string_view line);

}  // namespace lightcone::tidy
