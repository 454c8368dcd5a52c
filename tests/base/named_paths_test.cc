// Paths that callers name: what lies below listed folders, and what nobody hears of.
#include "base/named_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NamedPaths : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"sets/faces", "sets-too", "private"}) ASSERT_TRUE(MakeFolders(Path(name)).ok());
    ASSERT_TRUE(WriteFileAtomically(Path("private/key"), "secret").ok());
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  absl::Status Check(const std::string& path) const { return CheckNamedPath("f", path, {Path("sets")}, "o.folders"); }

  const TemporaryFolder folder_;
};

TEST_F(NamedPaths, BelowAListedFolderAreAllowed) {
  fs::create_symlink("faces", Path("sets/link"));
  for (const char* path : {"sets", "sets/", "sets/faces", "sets//faces", "sets/./faces", "sets/link"}) {
    EXPECT_TRUE(Check(Path(path)).ok()) << path << ": " << Check(Path(path));
  }
  EXPECT_TRUE(CheckNamedPath("f", Path("private/key"), {"/"}, "o").ok());
}

TEST_F(NamedPaths, ElsewhereAreRefusedWithTheSameWordsWhetherTheyAreThereOrNot) {
  fs::create_symlink(Path("private"), Path("sets/out"));
  fs::create_symlink("../private/key", Path("sets/key"));
  const auto words_of = [&](const std::string& path) {
    const absl::Status refused = Check(path);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
    const std::string message = MessageOf(refused);
    return message.substr(message.find("allowed: "));
  };
  const std::string words = words_of("/nowhere/at/all");
  EXPECT_THAT(words, HasSubstr("o.folders"));
  for (const std::string& path :
       {Path("private/key"), Path("private/none"), Path("sets-too"), Path("sets/../private/key"), Path("sets/out"),
        Path("sets/out/key"), Path("sets/out/none"), Path("sets/key"), std::string("relative"), std::string()}) {
    EXPECT_EQ(words_of(path), words) << path;
  }
}

TEST_F(NamedPaths, ThatAreMissingBelowAListedFolderAreNamed) {
  const absl::Status missing = Check(Path("sets/none"));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(missing), HasSubstr("field 'f' is"));
}

TEST_F(NamedPaths, AreAllRefusedWhereNoFolderIsListed) {
  const absl::Status refused = CheckNamedPath("f", Path("sets"), {}, "o.folders");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(MessageOf(refused), HasSubstr("o.folders lists no folder"));
}

TEST(Folders, AreListedAsInPath) {
  std::vector<std::string> folders = {"before"};
  EXPECT_TRUE(ParseFolders("", "o", &folders).ok());
  EXPECT_THAT(folders, IsEmpty());
  EXPECT_TRUE(ParseFolders("/a:/b/c/:/", "o", &folders).ok());
  EXPECT_THAT(folders, ElementsAre("/a", "/b/c", "/"));
  for (const char* wrong : {"a", "/a:b", "/a/../b", ":", "/a:", "/a::/b"}) {
    EXPECT_THAT(MessageOf(ParseFolders(wrong, "o", &folders)), HasSubstr("field 'o' is")) << wrong;
  }
}

}  // namespace
}  // namespace lightcone
