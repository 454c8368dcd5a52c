// docs/operate/backup.md as it stands: every command of the guide, in one shell, against a server that takes writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/strings.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

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

void MakeGallery(client::Client& client) {
  v1::CreateRequest create;
  create.set_name("photos");
  create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
  ASSERT_TRUE(client.CreateCollection(create).ok());
  v1::RegisterRequest manifest;
  manifest.set_collection("photos");
  manifest.set_manifest_json(R"({"dimension":2})");
  ASSERT_TRUE(client.RegisterGeneration(manifest).ok());
  v1::ActivateRequest activate;
  activate.set_collection("photos");
  activate.set_generation(1);
  ASSERT_TRUE(client.ActivateGeneration(activate).ok());
  v1::UpsertRequest upsert;
  upsert.set_collection("photos");
  for (uint64_t i = 0; i < 20; ++i) {
    v1::Item* item = upsert.add_items();
    item->mutable_id()->set_number(i);
    const float vector[] = {static_cast<float>(i), 1};
    client::SetVector(vector, 2, item->mutable_vector());
  }
  ASSERT_TRUE(client.Upsert(upsert).ok());
}

TEST(Guide, EveryCommandOfTheBackupWorksInItsOrder) {
  const auto page = ReadFile(LIGHTCONE_SOURCE_DIR "/docs/operate/backup.md");
  ASSERT_TRUE(page.ok()) << page.status();
  std::string commands = CommandsOf(*page);
  ASSERT_GT(std::count(commands.begin(), commands.end(), '\n'), 8);
  // The guide's ports may be taken on this machine.
  TemporaryFolder folder;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>("--http-listen 127.0.0.1:7801", "--http-listen ''"),
        {"--listen 127.0.0.1:7800", StrCat("--listen unix:", folder / "socket")},
        {"--server 127.0.0.1:7800", StrCat("--server unix:", folder / "socket")}}) {
    const size_t at = commands.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    commands.replace(at, from.size(), to);
  }
  auto server = cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", folder / "data", {});
  ASSERT_TRUE(server.ok()) << server.status();
  client::ClientOptions options;
  options.address = (*server)->address();
  const auto client = client::Client::Connect(options).value();
  ASSERT_NO_FATAL_FAILURE(MakeGallery(*client));
  const std::string script = folder / "guide.sh", said = folder / "said.txt";
  ASSERT_TRUE(
      WriteFileAtomically(script, StrCat("set -eu\nexport PATH=" LIGHTCONE_BINARY_DIR "/bin:$PATH LIGHTCONE_SERVER=",
                                         (*server)->address(), "\ncd ", folder.path(), "\n", commands))
          .ok());
  ASSERT_EQ(std::system(StrCat("timeout 120 sh ", script, " > ", said, " 2>&1").c_str()), 0)
      << ReadFile(said).value_or("");
  const std::string text = ReadFile(said).value_or("");
  EXPECT_THAT(text, testing::HasSubstr("restored snapshot monday into restored: 1 collections, 20 items"));
  EXPECT_THAT(text, testing::HasSubstr("serves 1 collection, 20 items"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "data/snapshots")) << "the last command deleted it";
}

}  // namespace
}  // namespace lightcone
