// docs/start/afternoon.md as it stands: every command of the guide, in one shell, against a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/strings.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/support/temporary_folder.h"
#include "trainer/data/dataset.h"

namespace lightcone {
namespace {

constexpr int kClasses = 6, kOfAClass = 24;

// What stands between ```sh and ```.
std::string CommandsOf(const std::string& page) {
  std::string commands;
  for (size_t at = page.find("```sh\n"); at != std::string::npos; at = page.find("```sh\n", at)) {
    at += 6;
    const size_t end = page.find("```", at);
    commands += page.substr(at, end - at);
    at = end;
  }
  return commands;
}

void DrawPictures(const std::string& folder) {
  const auto glyphs = OpenDataset("glyphs", 1);
  ASSERT_TRUE(glyphs.ok()) << glyphs.status();
  std::vector<int> of_class(static_cast<size_t>(glyphs->classes()));
  for (int64_t i = 0; i < glyphs->train.size(); ++i) {
    const int label = glyphs->train.labels[static_cast<size_t>(i)];
    if (label >= kClasses || of_class[static_cast<size_t>(label)]++ >= kOfAClass) continue;
    const std::string of = StrCat(folder, "/letter-", label);
    ASSERT_TRUE(MakeFolders(of).ok());
    ASSERT_TRUE(WriteFileAtomically(StrCat(of, "/", i, ".png"), *EncodePng(glyphs->train, i)).ok());
  }
}

TEST(Guide, EveryCommandOfTheAfternoonWorksInItsOrder) {
  const auto page = ReadFile(LIGHTCONE_SOURCE_DIR "/docs/start/afternoon.md");
  ASSERT_TRUE(page.ok()) << page.status();
  const std::string commands = CommandsOf(*page);
  ASSERT_GT(std::count(commands.begin(), commands.end(), '\n'), 20);
  TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(DrawPictures(folder / "pictures"));
  auto server =
      cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", folder / "data", {"--helper-niceness", "0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string script = folder / "guide.sh", said = folder / "said.txt";
  ASSERT_TRUE(
      WriteFileAtomically(script, StrCat("set -eu\nexport PATH=" LIGHTCONE_BINARY_DIR "/bin:$PATH LIGHTCONE_SERVER=",
                                         (*server)->address(), "\ncd ", folder.path(), "\n", commands))
          .ok());
  ASSERT_EQ(std::system(StrCat("sh ", script, " > ", said, " 2>&1").c_str()), 0) << ReadFile(said).value_or("");

  client::ClientOptions options;
  options.address = (*server)->address();
  const auto client = client::Client::Connect(options).value();
  v1::CollectionsGetRequest get;
  get.set_name("photos");
  const auto photos = client->GetCollection(get);
  ASSERT_TRUE(photos.ok()) << photos.status();
  EXPECT_EQ(photos->collection().items(), kClasses * kOfAClass);
  EXPECT_EQ(photos->collection().active_generation(), 1) << "the last command went back";
  v1::AuditRequest audit;
  audit.set_collection("photos");
  const auto log = client->Audit(audit);
  ASSERT_TRUE(log.ok()) << log.status();
  std::string actions;
  for (const v1::AuditEntry& entry : log->entries()) {
    actions += StrCat(v1::AuditAction_Name(entry.action()).substr(13), entry.forced() ? " by force" : "", "; ");
  }
  EXPECT_EQ(actions, "ROLLBACK; ACTIVATE; CANARY; ROLLBACK; ACTIVATE; ACTIVATE; ");
}

}  // namespace
}  // namespace lightcone
