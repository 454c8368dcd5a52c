// Acceptance: a call on a file of the store fails, at one point of a fixed workload after the other, with EIO or ENOSPC
// or after half a write. No acknowledged write is lost, reads go on meanwhile, and writes go on within seconds of the
// fault's end; where a log may have lost a record, they go on after a restart. In the environment
// LIGHTCONE_FAULT_POINTS sets the number of points (2000 for all) and LIGHTCONE_FAULT_FIRST the first of them.
#include "tests/system/disk_faults.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/status.h"
#include "base/strings.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/writer.h"

namespace lightcone {
namespace {

constexpr int kPoints = 30;
constexpr uint64_t kSteps = 12;
constexpr uint64_t kStoreMemory = 16 << 20;
// A disk of seconds a sync needs most of it; elsewhere writes go on within a second.
constexpr absl::Duration kRecoveryMax = absl::Seconds(90);
constexpr char kCollection[] = "faults";
constexpr DiskCallSet kStruck[] = {SetOf(kCallWrite), SetOf(kCallSync), SetOf(kCallRename),
                                   SetOf(kCallOpen) | SetOf(kCallCreate), SetOf(kCallRead)};
constexpr const char* kStruckNames[] = {"write", "sync", "rename", "open", "read"};
constexpr int kKinds = std::size(kStruck);

class DiskFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    std::puts("a sanitizer must be the first library of a process: nothing is tested");
    return;
#endif
    faults_ = MapFaults((folder_ / "faults").c_str());
    ASSERT_NE(faults_, nullptr);
  }
  void TearDown() override {
    server_.reset();
    if (faults_ != nullptr) ::munmap(faults_, sizeof(DiskFaults));
  }

  void Start(const std::string& data) {
    ::setenv("LD_PRELOAD", LIGHTCONE_BINARY_DIR "/lib/liblightcone_disk_faults.so", 1);
    ::setenv(kFaultsFolder, (data + "/store").c_str(), 1);
    ::setenv(kFaultsFile, (folder_ / "faults").c_str(), 1);
    auto server =
        cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", data,
                                {"--store-memory-bytes", StrCat(kStoreMemory), "--store-reserve-bytes", "1048576"});
    ::unsetenv("LD_PRELOAD");
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    client_ = ClientAt(server_->address());
  }

  void MakeCollection() {
    v1::CreateRequest create;
    create.set_name(kCollection);
    create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
    ASSERT_TRUE(client_->CreateCollection(create).ok());
    v1::RegisterRequest manifest;
    manifest.set_collection(kCollection);
    manifest.set_manifest_json(StrCat("{\"dimension\":", kDimension, "}"));
    ASSERT_TRUE(client_->RegisterGeneration(manifest).ok());
    v1::ActivateRequest activate;
    activate.set_collection(kCollection);
    activate.set_generation(1);
    ASSERT_TRUE(client_->ActivateGeneration(activate).ok());
  }

  absl::Status Upsert(uint64_t item, Version version) {
    v1::UpsertRequest request;
    request.set_collection(kCollection);
    v1::Item* added = request.add_items();
    added->mutable_id()->set_number(item);
    const std::vector<float> vector = VectorOf(item, version);
    client::SetVector(vector.data(), kDimension, added->mutable_vector());
    // Large payloads fill memtables, so that the workload meets flushes, new logs and compactions.
    added->set_payload_json(StrCat("{\"version\":", version, ",\"text\":\"", std::string(400'000, 'x'), "\"}"));
    return client_->Upsert(request).status();
  }

  Version VersionOf(uint64_t item) {
    v1::GetRequest get;
    get.set_collection(kCollection);
    get.add_ids()->set_number(item);
    const auto got = client_->Get(get);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok() || got->items_size() == 0) return 0;
    const std::string& payload = got->items(0).payload_json();
    return std::strtoull(payload.c_str() + payload.find(':') + 1, nullptr, 10);
  }

  void Check(const std::map<uint64_t, Version>& acknowledged, const std::string& when) {
    for (const auto& [item, version] : acknowledged) {
      const Version seen = VersionOf(item);
      EXPECT_GE(seen, version) << "item " << item << " " << when;
      EXPECT_LE(seen, version_) << "item " << item << " " << when;
    }
  }

  // OK once a write is acknowledged. The last refusal at the limit, and as soon as the store waits for a restart.
  absl::Status WritesGoOn() {
    const absl::Time end = absl::Now() + kRecoveryMax;
    for (;;) {
      const absl::Status written = Upsert(99, ++version_);
      if (written.ok() || absl::Now() >= end) return written;
      if (MessageOf(written).find("read-only since an I/O error") != std::string::npos) return written;
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  TemporaryFolder folder_;
  DiskFaults* faults_ = nullptr;
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  Version version_ = 0;
};

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(0, std::atoi(text));
}

TEST_F(DiskFaultsTest, NoFaultOfAFileLosesWhatWasAcknowledged) {
  if (faults_ == nullptr) return;
  const std::string data = folder_ / "data";
  Start(data);
  ASSERT_FALSE(HasFatalFailure());
  MakeCollection();
  std::map<uint64_t, Version> acknowledged;
  int struck = 0, restarts = 0;
  const int first = FromEnvironment("LIGHTCONE_FAULT_FIRST", 0);
  const int points = FromEnvironment("LIGHTCONE_FAULT_POINTS", kPoints);
  for (int point = first; point < first + points; ++point) {
    const int kind = point % kKinds;
    const int error = point / kKinds % 2 == 0 ? EIO : ENOSPC;
    const bool torn = point % 3 == 0;
    const std::string name = StrCat("point ", point, ": ", kStruckNames[kind], error == EIO ? ", EIO" : ", ENOSPC");
    SCOPED_TRACE(name);
    // Later points strike later calls, as far as the steps reach, and one call or three in a row.
    const uint64_t after = static_cast<uint64_t>(point / (2 * kKinds)) * 3 % kSteps;
    ArmFaults(faults_, kStruck[kind], kStruck[kind], after, point % 2 == 0 ? 1 : 3, error, torn);
    for (uint64_t step = 0; step < kSteps; ++step) {
      const uint64_t item = step % 5;
      if (Upsert(item, ++version_).ok()) acknowledged[item] = version_;
    }
    struck += faults_->failed.load() > 0;
    faults_->count = 0;
    Check(acknowledged, "after the fault");
    if (const absl::Status refused = WritesGoOn(); !refused.ok()) {
      ++restarts;
      EXPECT_NE(error, ENOSPC) << "a full disk needs no restart: " << refused;
      server_->Terminate();
      Start(data);
      ASSERT_FALSE(HasFatalFailure());
      EXPECT_EQ(WritesGoOn(), absl::OkStatus()) << "after a restart";
      Check(acknowledged, "after a restart");
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(struck, points / 3) << "the workload meets few of the calls";
  server_->Kill();
  Start(data);
  ASSERT_FALSE(HasFatalFailure());
  Check(acknowledged, "at the end");
  std::printf("%d points, %d of them struck, %d restarts\n", points, struck, restarts);
}

}  // namespace
}  // namespace lightcone
