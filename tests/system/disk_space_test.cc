// A server on a small file system of its own that becomes full: deletes and operators go on when new items are refused,
// other programs take the last byte, and everything goes on once there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kName[] = "full";
constexpr uint64_t kBatch = 20;

class DiskSpace : public testing::Test {
 protected:
  void SetUp() override {
    mounts_ = std::system("unshare -Urm true 2>/dev/null") == 0;
    if (!mounts_) std::puts("no file system can be mounted here: nothing is tested");
    if (!mounts_) return;
    const std::string mounting = folder_ / "mounting";
    ASSERT_TRUE(WriteFileAtomically(mounting, StrCat("#!/bin/bash\nexec unshare -Urm bash -c 'mount -t tmpfs -o "
                                                     "size=128m none \"$3\" && exec ",
                                                     LIGHTCONE_BINARY_DIR, "/bin/lightcone \"$@\"' lightcone \"$@\"\n"))
                    .ok());
    fs::permissions(mounting, fs::perms::owner_all);
    fs::create_directory(data_);
    auto server = cli::ChildServer::Start(mounting, data_,
                                          {"--store-memory-bytes", "16777216", "--store-reserve-bytes", "16777216"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    client_ = client::Client::Connect({.address = server_->address()}).value();
  }

  // The data folder as the server sees it.
  std::string Inside(const std::string& name) const {
    return StrCat("/proc/", server_->pid(), "/root", data_, "/", name);
  }

  // As another program does.
  void TakeTheLastByte() const {
    const std::string chunk(4'096, 'x');
    std::ofstream ballast(Inside("ballast"), std::ios::binary | std::ios::app);
    while (ballast.write(chunk.data(), static_cast<std::streamsize>(chunk.size())).flush()) {
    }
  }

  absl::Status Create(const std::string& name) {
    v1::CreateRequest create;
    create.set_name(name);
    create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
    return client_->CreateCollection(create).status();
  }
  absl::Status Register(uint32_t parent) {
    v1::RegisterRequest manifest;
    manifest.set_collection(kName);
    manifest.set_parent(parent);
    manifest.set_manifest_json("{\"dimension\":2}");
    return client_->RegisterGeneration(manifest).status();
  }
  absl::Status Activate(uint32_t generation) {
    v1::ActivateRequest activate;
    activate.set_collection(kName);
    activate.set_generation(generation);
    activate.set_force(true);
    activate.set_reason("a test");
    return client_->ActivateGeneration(activate).status();
  }
  absl::Status Upsert(uint64_t batch) {
    v1::UpsertRequest request;
    request.set_collection(kName);
    request.set_generation(1);
    for (uint64_t i = 0; i < kBatch; ++i) {
      v1::Item* item = request.add_items();
      item->mutable_id()->set_number(batch * kBatch + i);
      const float vector[] = {static_cast<float>(batch), static_cast<float>(i)};
      client::SetVector(vector, 2, item->mutable_vector());
      std::string text(20'000, ' ');
      for (char& c : text) c = static_cast<char>('a' + (state_ = state_ * 6364136223846793005u + 1) % 1009 % 26);
      item->set_payload_json(StrCat("{\"text\":\"", text, "\"}"));
    }
    return client_->Upsert(request).status();
  }
  absl::Status Delete(uint64_t item) {
    v1::DeleteRequest request;
    request.set_collection(kName);
    request.add_ids()->set_number(item);
    return client_->Delete(request).status();
  }

  bool mounts_ = true;  // whether this machine lets a file system be mounted
  TemporaryFolder folder_;
  const std::string data_ = folder_ / "data";
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  uint64_t state_ = 1;
};

TEST_F(DiskSpace, OperatorsAndDeletesGoOnWhileNewItemsAreRefused) {
  if (!mounts_) return;
  const std::string chunk(1 << 20, 'x');
  std::ofstream others(Inside("others"), std::ios::binary);  // of another program
  for (int i = 0; i < 40; ++i) others << chunk;
  others.close();
  ASSERT_TRUE(Create(kName).ok());
  ASSERT_TRUE(Register(0).ok());
  ASSERT_TRUE(Activate(1).ok());
  ASSERT_TRUE(Register(1).ok());
  absl::Status refused;
  uint64_t batches = 0;
  for (; refused.ok() && batches < 1'000; ++batches) refused = Upsert(batches);
  ASSERT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(MessageOf(refused), HasSubstr("bytes are free where"));
  EXPECT_THAT(MessageOf(refused), HasSubstr("and new data needs"));
  TakeTheLastByte();
  ASSERT_EQ(fs::space(Inside("")).available, 0u);
  for (uint64_t item = 0; item < 50; ++item) {
    const absl::Status deleted = Delete(item);
    ASSERT_TRUE(deleted.ok()) << item << ": " << deleted;
  }
  absl::Status done = Activate(2);
  EXPECT_TRUE(done.ok()) << done;
  done = Activate(1);
  EXPECT_TRUE(done.ok()) << done;
  done = Create("another");
  EXPECT_TRUE(done.ok()) << done;
  refused = absl::OkStatus();
  for (int i = 0; i < 20 && refused.ok(); ++i) {
    TakeTheLastByte();  // Tables are written all the while, and their logs removed.
    refused = Upsert(++batches);
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << "the reserve is not for items";
  fs::remove(Inside("ballast"));
  fs::remove(Inside("others"));
  const absl::Time limit = absl::Now() + absl::Seconds(5);
  absl::Status again = Upsert(0);
  while (!again.ok() && absl::Now() < limit) again = Upsert(0);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(server_->Terminate(), 0);
}

}  // namespace
}  // namespace lightcone
