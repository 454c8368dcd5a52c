// Snapshots by the wire: real servers on loopback, the C++ client, archives up and down.
#include "client/snapshots.h"

#include <chrono>
#include <filesystem>

#include "base/files.h"
#include "base/status.h"
#include "grpcpp/create_channel.h"
#include "lightcone/v1/snapshots.grpc.pb.h"
#include "snapshot/restore.h"
#include "tests/rpc/wire_fixture.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SnapshotsWire : public WireTest {
 protected:
  void Start() {
    Serve();
    client::ClientOptions options;
    options.address = server_->bound().grpc;
    auto snapshots = client::SnapshotClient::Connect(options);
    ASSERT_TRUE(snapshots.ok()) << snapshots.status();
    snapshots_ = *std::move(snapshots);
  }
  v1::SnapshotInfo Make(const std::string& name) {
    v1::CreateSnapshotRequest request;
    request.set_name(name);
    const auto made = snapshots_->Create(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->snapshot() : v1::SnapshotInfo();
  }

  std::unique_ptr<client::SnapshotClient> snapshots_;
};

TEST_F(SnapshotsWire, ASnapshotIsMadeListedVerifiedDownloadedUploadedRestoredAndDeleted) {
  Start();
  MakeGallery("photos");
  ASSERT_TRUE(Upsert(Batch("photos", {"a", "b", "c"})).ok());
  const v1::SnapshotInfo made = Make("first");
  ASSERT_EQ(made.collections_size(), 1);
  EXPECT_EQ(made.collections(0).collection(), "photos");
  EXPECT_EQ(made.collections(0).items(), 3u);
  EXPECT_EQ(made.collections(0).active_generation(), 1u);
  EXPECT_FALSE(made.has_verified());
  const auto verified = snapshots_->Verify("first");
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_TRUE(verified->snapshot().has_verified());

  const std::string file = folder_ / "first.tar";
  uint64_t bytes = 0;
  const absl::Status down = snapshots_->Download("first", file, [&bytes](uint64_t now) { bytes = now; });
  ASSERT_TRUE(down.ok()) << down;
  EXPECT_EQ(bytes, fs::file_size(file));
  EXPECT_EQ(snapshots_->Download("first", file, {}).code(), absl::StatusCode::kAlreadyExists);
  const auto up = snapshots_->Upload(file, "again", {});
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_EQ(up->snapshot().name(), "again");
  EXPECT_TRUE(up->snapshot().has_verified());
  EXPECT_EQ(snapshots_->List()->snapshots_size(), 2);
  ASSERT_TRUE(snapshots_->Delete("first").ok());
  EXPECT_EQ(snapshots_->Delete("first").code(), absl::StatusCode::kNotFound);

  const auto restored = RestoreSnapshot(up->snapshot().folder(), folder_ / "restored");
  ASSERT_TRUE(restored.ok()) << restored.status();
  snapshots_.reset();
  server_.reset();
  config_.http_listen = "";
  fs::rename(folder_ / "data", folder_ / "old");
  fs::rename(folder_ / "restored", folder_ / "data");
  Serve();
  v1::SearchResponse found;
  ASSERT_TRUE(Search(SearchFor("photos", {0, 1, 2, 3}), &found).ok());
  EXPECT_EQ(found.results(0).hits_size(), 3);
}

TEST_F(SnapshotsWire, ACollectionOfASnapshotComesBackUnderAnotherNameWhileAllServes) {
  Start();
  MakeGallery("photos");
  MakeGallery("films");
  ASSERT_TRUE(Upsert(Batch("photos", {"a", "b", "c"})).ok());
  v1::CreateSnapshotRequest request;
  request.set_name("first");
  request.add_collections("photos");
  const auto made = snapshots_->Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->snapshot().collections_size(), 1);
  EXPECT_EQ(made->snapshot().collections(0).collection(), "photos");
  request.set_name("second");
  request.add_collections("unknown");
  EXPECT_EQ(snapshots_->Create(request).status().code(), absl::StatusCode::kNotFound);

  v1::RestoreCollectionRequest restore;
  restore.set_snapshot("first");
  restore.set_collection("photos");
  EXPECT_EQ(snapshots_->RestoreCollection(restore).status().code(), absl::StatusCode::kAlreadyExists);
  restore.set_name("copy");
  restore.set_request_id("once");
  for (int call = 0; call < 2; ++call) {
    const auto restored = snapshots_->RestoreCollection(restore);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->name(), "copy");
    EXPECT_EQ(restored->items(), 3u);
    EXPECT_EQ(restored->active_generation(), 1u);
    EXPECT_GT(restored->sequence(), 0u);
  }
  v1::SearchResponse found;
  ASSERT_TRUE(Search(SearchFor("copy", {0, 1, 2, 3}), &found).ok());
  EXPECT_EQ(found.results(0).hits_size(), 3);
  restore.set_request_id("");
  restore.set_name("another");
  restore.set_collection("films");
  EXPECT_EQ(snapshots_->RestoreCollection(restore).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SnapshotsWire, APieceThatTakesMoreMemoryThanTheServerParsesIsRefused) {
  config_.parsed_bytes_max = 1 << 20;
  Serve();
  const auto stub =
      v1::Snapshots::NewStub(grpc::CreateChannel(server_->bound().grpc, grpc::InsecureChannelCredentials()));
  const auto upload = [&](const v1::UploadSnapshotRequest& piece) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::UploadSnapshotResponse response;
    const auto writer = stub->UploadSnapshot(&context, &response);
    writer->Write(piece);
    writer->WritesDone();
    return writer->Finish();
  };
  v1::UploadSnapshotRequest piece;
  piece.set_data(std::string(2 << 20, 'x'));
  const grpc::Status large = upload(piece);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(large.error_message(), HasSubstr("rpc.parsed_bytes_max"));
  piece.set_data(std::string(512, 'x'));
  EXPECT_EQ(upload(piece).error_code(), grpc::StatusCode::DATA_LOSS) << "what was refused holds no memory";
}

TEST_F(SnapshotsWire, WhatIsDamagedOrCutIsRefusedAndNothingIsKept) {
  Start();
  MakeGallery("photos");
  const v1::SnapshotInfo made = Make("first");
  const std::string file = folder_ / "first.tar";
  ASSERT_TRUE(snapshots_->Download("first", file, {}).ok());
  fs::resize_file(file, fs::file_size(file) / 2);
  const auto cut = snapshots_->Upload(file, "cut", {});
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kDataLoss) << cut.status();
  EXPECT_EQ(snapshots_->List()->snapshots_size(), 1);
  EXPECT_EQ(snapshots_->Upload(file, "first", {}).status().code(), absl::StatusCode::kAlreadyExists);

  const std::string damaged = made.folder() + "/data/store/CURRENT";
  ASSERT_TRUE(WriteFileAtomically(damaged, "MANIFEST-99999\n").ok());
  const auto verified = snapshots_->Verify("first");
  EXPECT_EQ(verified.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(verified.status().message()), HasSubstr("'store/CURRENT'"));
  const absl::Status down = snapshots_->Download("first", folder_ / "second.tar", {});
  EXPECT_EQ(down.code(), absl::StatusCode::kDataLoss) << down;
  EXPECT_FALSE(fs::exists(folder_ / "second.tar"));
  EXPECT_FALSE(fs::exists(folder_ / "second.tar.partial"));
  for (const auto& entry : fs::directory_iterator(folder_ / "data/snapshots")) {
    EXPECT_EQ(entry.path().filename(), "first") << "no upload left anything";
  }
}

}  // namespace
}  // namespace lightcone::server
