// Searches of an index whose sealed segments are on the emulated device: the same hits as by brute force, through
// deletes, newer generations and merges, while the device serves and after it is lost.
#include <random>

#include "gmock/gmock.h"
#include "index/gpu/serving_device.h"
#include "tests/gpu/emulated_machine.h"
#include "tests/index/index_testing.h"

namespace lightcone {
namespace {

class DeviceSearch : public testing::Test {
 protected:
  void SetUp() override { Serve(true, int64_t{256} << 20); }
  void TearDown() override { gpu::ServeFrom(nullptr); }

  void Serve(bool copy_at_once, int64_t bytes_max) {
    auto machine = std::make_unique<gpu::EmulatedMachine>();
    machine_ = machine.get();
    DeviceOptions options;
    options.rows_min = 1;
    options.copy_at_once = copy_at_once;
    options.memory_bytes_max = bytes_max;
    auto device = gpu::ScanDevice::Open(std::move(machine), options);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    gpu::ServeFrom(std::move(*device));
  }

  void OpenIndex(Metric metric, SealedKind kind, RowCodes codes) {
    space_ = {metric, 24, 1.0, 1.2};
    generations_ = {{1, space_}, {2, space_}};
    IndexSettings settings;
    settings.kind = kind;
    settings.codes = codes;
    settings.growing_rows_max = 200;
    settings.merge_rows_max = 200;
    settings.hnsw_ef_construction = 16;
    auto index = CollectionIndex::Open(folder_->path(), settings, generations_, oracle_.get());
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = std::move(*index);
  }

  std::vector<float> Vector() {
    std::normal_distribution<float> normal(0, 0.3f);
    std::vector<float> z(24);
    for (float& x : z) x = normal(random_);
    return z;
  }

  void Add(uint64_t first, uint64_t last, uint32_t generation) {
    Oracle::Batch batch;
    for (uint64_t id = first; id <= last; ++id) batch.push_back(Oracle::Add(id, generation, Vector()));
    ASSERT_TRUE(oracle_->Write(index_.get(), std::move(batch)).ok());
  }

  void ExpectExact(const std::string& what, const std::function<bool(uint64_t, float)>& keep = {}) {
    const BoundQuery query = Bind(space_, Vector());
    std::vector<SearchRequest> requests;
    for (const uint32_t generation : {1u, 2u}) {
      for (const uint32_t view_generation : {1u, 2u}) {
        SearchRequest& request = requests.emplace_back();
        request.query = &query;
        request.generation = generation;
        request.view_generation = view_generation;
        request.k = 10;
        request.exact = true;
        request.keep = keep;
      }
    }
    const auto results = index_->View()->SearchTogether(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      ExpectSameHits(results[i]->hits,
                     oracle_->BruteForce(query, requests[i].generation, requests[i].view_generation, 10, keep),
                     StrCat(what, ", request ", i));
    }
  }

  // What the device did during `call`, searches of one segment each.
  int64_t ScansOf(const std::function<void()>& call) {
    const int64_t before = device_->Stats().scans;
    call();
    return device_->Stats().scans - before;
  }

  std::mt19937 random_{5};
  gpu::EmulatedMachine* machine_ = nullptr;  // the device's
  std::shared_ptr<gpu::ScanDevice> device_;
  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
  std::unique_ptr<Oracle> oracle_ = std::make_unique<Oracle>();
  Space space_;
  std::vector<std::pair<uint32_t, Space>> generations_;
  std::unique_ptr<CollectionIndex> index_;
};

TEST_F(DeviceSearch, GivesTheHitsOfBruteForceThroughALife) {
  OpenIndex(Metric::kLorentz, SealedKind::kFlat, RowCodes::kInt8);
  Add(1, 500, 1);
  ASSERT_TRUE(index_->Flush().ok());
  // A leg each of both views; generation 2 has no rows.
  EXPECT_EQ(ScansOf([&] { ExpectExact("sealed"); }), 2);
  Add(501, 620, 1);  // a growing segment, which the CPU scans
  EXPECT_EQ(ScansOf([&] { ExpectExact("growing beside sealed"); }), 2);
  Add(100, 300, 2);                                           // supersedes rows in the views of generation 2
  EXPECT_GE(ScansOf([&] { ExpectExact("superseded"); }), 2);  // generation 2 may be sealed by now
  Oracle::Batch deletes;
  for (uint64_t id = 3; id < 400; id += 9) deletes.push_back(Oracle::Delete(id));
  ASSERT_TRUE(oracle_->Write(index_.get(), std::move(deletes)).ok());
  EXPECT_GE(ScansOf([&] { ExpectExact("deleted"); }), 2);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(ScansOf([&] { ExpectExact("all sealed"); }), 4);
  EXPECT_FALSE(device_->lost());
}

TEST_F(DeviceSearch, EveryKindAndCodeOfSegmentIsScanned) {
  for (const SealedKind kind : {SealedKind::kFlat, SealedKind::kHnsw, SealedKind::kIvf}) {
    for (const RowCodes codes : {RowCodes::kFloat32, RowCodes::kInt8, RowCodes::kHalf}) {
      index_.reset();
      folder_ = std::make_unique<TemporaryFolder>();
      oracle_ = std::make_unique<Oracle>();
      OpenIndex(Metric::kEuclidean, kind, codes);
      Add(1, 300, 1);
      ASSERT_TRUE(index_->Flush().ok());
      EXPECT_EQ(ScansOf([&] { ExpectExact(StrCat(SealedKindName(kind), " by ", RowCodesName(codes))); }), 2);
    }
  }
}

TEST_F(DeviceSearch, AFilterThatIsAskedLateIsLeftToTheCpu) {
  OpenIndex(Metric::kCosine, SealedKind::kFlat, RowCodes::kInt8);
  Add(1, 400, 1);
  ASSERT_TRUE(index_->Flush().ok());
  EXPECT_EQ(ScansOf([&] { ExpectExact("kept", [](uint64_t id, float) { return id % 3 != 0; }); }), 0);
}

TEST_F(DeviceSearch, ALostDeviceIsAnsweredForByTheCpuInTheSameCall) {
  OpenIndex(Metric::kLorentz, SealedKind::kFlat, RowCodes::kInt8);
  Add(1, 400, 1);
  ASSERT_TRUE(index_->Flush().ok());
  ExpectExact("by the device");
  machine_->FailAfter(2);
  EXPECT_EQ(ScansOf([&] { ExpectExact("while it is lost"); }), 0);
  EXPECT_TRUE(device_->lost());
  EXPECT_EQ(gpu::ServingDeviceStatus().state, "lost");
  EXPECT_EQ(ScansOf([&] { ExpectExact("afterwards"); }), 0);
  Add(401, 700, 1);
  ASSERT_TRUE(index_->Flush().ok());
  ExpectExact("new segments");
}

TEST_F(DeviceSearch, ASegmentThatDoesNotFitStaysWithTheCpu) {
  Serve(true, 16 << 20);
  OpenIndex(Metric::kLorentz, SealedKind::kFlat, RowCodes::kInt8);
  Add(1, 400, 1);
  ASSERT_TRUE(index_->Flush().ok());
  // All but a kilobyte of what is allowed is taken by somebody else.
  const int64_t taken = (16 << 20) - device_->Stats().bytes - 1024;
  auto memory = device_->budget()->Take(taken).value();
  EXPECT_EQ(ScansOf([&] { ExpectExact("no room"); }), 0);
  EXPECT_GT(device_->Stats().segments_refused, 0);
  const int64_t refused = device_->Stats().segments_refused;
  EXPECT_EQ(ScansOf([&] { ExpectExact("refused before"); }), 0);
  device_->budget()->CountRowsGone();  // some that leave too little room
  EXPECT_EQ(ScansOf([&] { ExpectExact("still no room"); }), 0);
  EXPECT_EQ(device_->Stats().segments_refused, refused);
  memory = gpu::DeviceMemory();
  device_->budget()->CountRowsGone();  // that memory was, say, of a segment
  EXPECT_EQ(ScansOf([&] { ExpectExact("room again"); }), 2);
}

TEST_F(DeviceSearch, ACopyIsMadeBesideSearches) {
  Serve(false, int64_t{256} << 20);
  OpenIndex(Metric::kLorentz, SealedKind::kFlat, RowCodes::kInt8);
  Add(1, 200, 1);
  ASSERT_TRUE(index_->Flush().ok());
  for (int i = 0; i < 3'000 && device_->Stats().scans == 0; ++i) {
    ExpectExact("before or after");
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_GT(device_->Stats().scans, 0);
  EXPECT_EQ(device_->Stats().segments_copied, 1);
  index_.reset();
  EXPECT_EQ(device_->budget()->state().rows_gone > 0, true);
}

}  // namespace
}  // namespace lightcone
