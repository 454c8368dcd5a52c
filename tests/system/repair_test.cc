// `lightcone repair` and the start of a server on a damaged data folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "nlohmann/json.hpp"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kItems = 60;
constexpr char kName[] = "damaged";
constexpr char kBinary[] = LIGHTCONE_BINARY_DIR "/bin/lightcone";

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

Outcome RunAlone(const TemporaryFolder& scratch, const std::vector<std::string>& words) {
  std::string line = kBinary;
  for (const std::string& word : words) line += " '" + word + "'";
  line += " >" + (scratch / "stdout") + " 2>" + (scratch / "stderr");
  const int state = std::system(line.c_str());
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, ReadFile(scratch / "stdout").value(),
          ReadFile(scratch / "stderr").value()};
}

class RepairCommand : public testing::Test {
 protected:
  std::unique_ptr<client::Client> Start(const std::string& data, const std::vector<std::string>& extra = {}) {
    auto server = cli::ChildServer::Start(kBinary, data, extra);
    EXPECT_TRUE(server.ok()) << server.status();
    if (!server.ok()) return nullptr;
    server_ = std::move(*server);
    return client::Client::Connect({.address = server_->address()}).value();
  }

  static void MakeCollection(client::Client& client) {
    v1::CreateRequest create;
    create.set_name(kName);
    create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
    ASSERT_TRUE(client.CreateCollection(create).ok());
    v1::RegisterRequest manifest;
    manifest.set_collection(kName);
    manifest.set_manifest_json("{\"dimension\":2}");
    ASSERT_TRUE(client.RegisterGeneration(manifest).ok());
    v1::ActivateRequest activate;
    activate.set_collection(kName);
    activate.set_generation(1);
    ASSERT_TRUE(client.ActivateGeneration(activate).ok());
  }

  static absl::Status Upsert(client::Client& client, uint64_t begin, uint64_t end) {
    v1::UpsertRequest request;
    request.set_collection(kName);
    for (uint64_t i = begin; i < end; ++i) {
      v1::Item* item = request.add_items();
      item->mutable_id()->set_number(i);
      const float vector[] = {static_cast<float>(i), 1};
      client::SetVector(vector, 2, item->mutable_vector());
      item->set_payload_json(StrCat("{\"text\":\"", std::string(500, 'p'), "\"}"));
    }
    return client.Upsert(request).status();
  }

  static int64_t Count(client::Client& client) {
    v1::CountRequest count;
    count.set_collection(kName);
    const auto counted = client.Count(count);
    EXPECT_TRUE(counted.ok()) << counted.status();
    return counted.ok() ? counted->count() : -1;
  }

  // Tables of two starts, and a log of the third.
  void MakeDataFolder() {
    for (uint64_t part = 0; part < 3; ++part) {
      const auto client = Start(data_);
      ASSERT_NE(client, nullptr);
      if (part == 0) MakeCollection(*client);
      ASSERT_TRUE(Upsert(*client, part * kItems / 3, (part + 1) * kItems / 3).ok());
      ASSERT_EQ(server_->Terminate(), 0);
    }
  }

  std::vector<fs::path> Files(const std::string& extension) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(data_ + "/store")) {
      if (entry.path().extension() == extension && entry.file_size() > 0) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // Flips a bit of the last record of the log.
  void DamageLog() {
    const fs::path path = Files(".log").back();
    std::string bytes = ReadFile(path).value();
    const size_t at = bytes.rfind("ppppp");
    ASSERT_NE(at, std::string::npos);
    bytes[at] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  }

  TemporaryFolder folder_;
  const std::string data_ = folder_ / "data";
  const std::string saved_ = folder_ / "saved";
  std::unique_ptr<cli::ChildServer> server_;
};

TEST_F(RepairCommand, AWholeFolderIsSavedWholeAndServes) {
  MakeDataFolder();
  const Outcome done = RunAlone(folder_, {"repair", data_, "--to", saved_});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("collection 'damaged': 60 items saved, 0 lost"));
  const auto client = Start(saved_);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems));
  EXPECT_TRUE(Upsert(*client, 0, kItems + 5).ok());
  EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems) + 5);
}

TEST_F(RepairCommand, AnEncoderThatCannotBeReadIsNamedAndDoesNotKeepItemsFromBeingSaved) {
  MakeDataFolder();
  fs::create_directories(data_ + "/encoders/7");
  ASSERT_TRUE(WriteFileAtomically(data_ + "/encoders/7/1.pt", "whole").ok());
  fs::create_symlink("nowhere", data_ + "/encoders/7/2.pt");  // reading it fails for every user
  const Outcome done = RunAlone(folder_, {"repair", data_, "--to", saved_ + "/"});
  EXPECT_EQ(done.exit_code, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("encoders/7/2.pt' is left out"));
  EXPECT_THAT(done.out, HasSubstr("collection 'damaged': 60 items saved, 0 lost"));
  EXPECT_EQ(ReadFile(saved_ + "/encoders/7/1.pt").value(), "whole");
}

TEST_F(RepairCommand, AFolderInUseAndATargetThatExistsAreRefused) {
  const auto client = Start(data_);
  ASSERT_NE(client, nullptr);
  const Outcome in_use = RunAlone(folder_, {"repair", data_, "--to", saved_});
  EXPECT_EQ(in_use.exit_code, 4);
  EXPECT_THAT(in_use.err, HasSubstr("is in use"));
  EXPECT_FALSE(fs::exists(saved_));
  EXPECT_FALSE(fs::exists(saved_ + ".partial"));
  EXPECT_EQ(server_->Terminate(), 0);
  const Outcome exists = RunAlone(folder_, {"repair", data_, "--to", data_});
  EXPECT_EQ(exists.exit_code, 5);
  EXPECT_THAT(exists.err, HasSubstr("allowed: a folder that does not exist yet"));
}

TEST_F(RepairCommand, ADamagedLogRefusesNamesTheWayOutAndIsCutWhereDamageIsAccepted) {
  MakeDataFolder();
  DamageLog();
  const auto refused = cli::ChildServer::Start(kBinary, data_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("were acknowledged as durable"));
  const Outcome saved = RunAlone(folder_, {"repair", data_, "--to", saved_, "--json"});
  EXPECT_EQ(saved.exit_code, 1) << saved.err;
  EXPECT_FALSE(saved.json()["whole"].get<bool>());
  EXPECT_THAT(saved.json()["damage"][0].get<std::string>(), HasSubstr(".log' can be read up to sequence "));
  auto client = Start(saved_);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems) * 2 / 3);
  EXPECT_EQ(server_->Terminate(), 0);
  client = Start(data_, {"--store-damage", "accept"});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems) * 2 / 3);
  EXPECT_THAT(ReadFile(data_ + ".log").value(), HasSubstr("were acknowledged as durable and are lost"));
  EXPECT_TRUE(Upsert(*client, 0, kItems).ok());
  EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems));
}

TEST_F(RepairCommand, WithoutATableTheRestIsSavedAndNoHalfItemComesBack) {
  MakeDataFolder();
  for (const fs::path& table : Files(".sst")) {
    const std::string lost = table.string() + ".lost";
    fs::rename(table, lost);
    fs::remove_all(saved_);
    const Outcome done = RunAlone(folder_, {"repair", data_, "--to", saved_, "--json"});
    fs::rename(lost, table);
    ASSERT_EQ(done.exit_code, 1) << table << done.err;
    EXPECT_THAT(done.json()["damage"][0].get<std::string>(), HasSubstr(table.filename().string()));
    const auto& collections = done.json()["collections"];
    if (collections.empty() || !collections[0]["refused"].get<std::string>().empty()) continue;
    const auto client = Start(saved_);
    ASSERT_NE(client, nullptr) << table;
    EXPECT_EQ(Count(*client), collections[0]["items"].get<int64_t>()) << table;
    v1::GetRequest get;
    get.set_collection(kName);
    get.set_with_vector(true);
    for (uint64_t i = 0; i < kItems; ++i) get.add_ids()->set_number(i);
    const auto got = client->Get(get);
    ASSERT_TRUE(got.ok()) << table << got.status();
    EXPECT_EQ(got->items_size(), collections[0]["items"].get<int>()) << table;
    EXPECT_TRUE(Upsert(*client, 0, kItems).ok()) << table;
    EXPECT_EQ(Count(*client), static_cast<int64_t>(kItems)) << table;
    EXPECT_EQ(server_->Terminate(), 0);
  }
}

TEST_F(RepairCommand, OnlyTheOwnerMayEnterTheDataFolder) {
  fs::create_directory(data_);
  fs::permissions(data_, fs::perms::all);
  ASSERT_NE(Start(data_), nullptr);
  EXPECT_EQ(fs::status(data_).permissions(), fs::perms::owner_all);
  for (const auto& entry : fs::recursive_directory_iterator(data_)) {
    const fs::perms others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
  }
  EXPECT_THAT(ReadFile(data_ + ".log").value(), HasSubstr("its mode is 0700 now"));
}

}  // namespace
}  // namespace lightcone
