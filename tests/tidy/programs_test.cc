// What `lightcone` may not link: libtorch, image decoders, trainers. `lightcone-model` holds what needs them.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

bool StartsWithAny(const std::string& text, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return false;
}

TEST(Programs, TheServerAndTheClientsCommandsIncludeNothingOfWhatRunsEncoders) {
  const std::vector<std::string> heavy_folders = {"server/embed_worker/", "cli/model/", "cli/research/", "cli/demo/",
                                                  "cli/served/"};
  std::vector<std::string> heavy_headers = {"models/encoders/", "models/image", "trainer/", "research/"};
  heavy_headers.insert(heavy_headers.end(), heavy_folders.begin(), heavy_folders.end());
  const fs::path root = LIGHTCONE_SOURCE_DIR;
  int files = 0;
  for (const char* const room :
       {"base", "geometry", "stats", "outbound", "store", "index", "server", "client", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string path = fs::relative(entry.path(), root).string();
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      if (StartsWithAny(path, heavy_folders)) continue;
      ++files;
      std::istringstream text(ReadFile(entry.path().string()).value());
      for (std::string line; std::getline(text, line);) {
        if (!line.starts_with("#include \"")) continue;
        EXPECT_FALSE(StartsWithAny(line.substr(10), heavy_headers)) << path << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace lightcone
