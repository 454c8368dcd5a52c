// Segments that an item adapter has carried over into files: against brute force, through what happens to their rows,
// over restarts and damage.
#include "index/adapted/carried_segments.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "index/rows/manifest.h"
#include "tests/index/adapted_world.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kAdapterSum = 77;
const std::function<bool()> kNever = [] { return false; };

class CarriedWorld : public AdaptedWorld {
 public:
  using AdaptedWorld::AdaptedWorld;

  std::unique_ptr<CarriedSegments> Cache(uint32_t adapter_sum = kAdapterSum) {
    return std::make_unique<CarriedSegments>(&*adapter_, adapter_sum, folder_ / "adapted/1", disk_);
  }
  absl::Status Carry(CarriedSegments* carried) { return index_->View()->Adapt(1, nullptr, carried, settings_, kNever); }
  uint64_t SegmentId(size_t i = 0) const { return index_->Stats().segments.at(i).id; }
  std::string PathOf(uint64_t segment) const { return folder_ / StrCat("adapted/1/", segment); }

  // An adapter that turns and moves rows and leaves them as near to each other as they were.
  void UseTurn() {
    AdapterSpec spec;
    spec.kind = AdapterKind::kAffine;
    spec.input_dimension = 7;
    spec.target = to_;
    spec.linear.assign(70, 0.0f);
    for (size_t i = 0; i < 7; ++i) spec.linear[((i * 3 + 1) % 10) * 7 + i] = i % 2 == 0 ? 1.0f : -1.0f;
    spec.offset.assign(10, 0.0f);
    UseAdapter(std::move(spec));
  }
  // An adapter that drops most of what made rows near.
  void UseShadow() {
    AdapterSpec spec;
    spec.kind = AdapterKind::kAffine;
    spec.input_dimension = 7;
    spec.target = to_;
    spec.linear.assign(70, 0.0f);
    for (size_t i = 0; i < 3; ++i) spec.linear[i * 7 + i] = 1;
    spec.offset.assign(10, 0.0f);
    UseAdapter(std::move(spec));
  }

  double Recall(const CarriedSegments& carried, double target_recall = 0, int64_t* scored = nullptr) {
    int64_t found = 0, wanted = 0;
    for (int round = 0; round < 60; ++round) {
      const std::vector<float> old = Vector(7);
      std::vector<float> q(10);
      adapter_->ApplyOne(old, q);
      const BoundQuery adapted = Bind(to_, q);
      SearchRequest request = Request(&adapted, 10);
      request.carried = &carried;
      const auto exact = index_->View()->Search(request);
      request.exact = false;
      request.target_recall = target_recall;
      const auto walked = index_->View()->Search(request);
      EXPECT_TRUE(exact.ok() && walked.ok());
      EXPECT_EQ(walked->rows_adapted, 0);
      if (scored != nullptr) *scored += walked->rows_scored;
      wanted += static_cast<int64_t>(exact->hits.size());
      for (const SearchHit& hit : exact->hits) {
        found += std::any_of(walked->hits.begin(), walked->hits.end(),
                             [&](const SearchHit& other) { return other.internal_id == hit.internal_id; });
      }
    }
    return static_cast<double>(found) / static_cast<double>(wanted);
  }

  std::shared_ptr<AdaptedBudget> disk_ = std::make_shared<AdaptedBudget>(kUnlimited);
};

TEST(CarriedSegments, AnswerExactSearchesAsBruteForceDoesThroughDeletionsBackfillsAndFilters) {
  for (const Metric metric : {Metric::kLorentz, Metric::kCosine, Metric::kInnerProduct, Metric::kEuclidean}) {
    for (const SealedKind kind : {SealedKind::kFlat, SealedKind::kHnsw}) {
      for (const RowCodes codes : {RowCodes::kFloat32, RowCodes::kInt8}) {
        CarriedWorld world(metric, 2'300, 7, /*growing_rows_max=*/900, kind, codes);
        ASSERT_TRUE(world.index_->Flush().ok());
        const auto carried = world.Cache();
        ASSERT_TRUE(world.Carry(carried.get()).ok());
        EXPECT_EQ(carried->rows(), 2'300);
        EXPECT_GT(carried->bytes(), 2'300 * 10 * 4);
        for (uint64_t id = 2'301; id <= 2'400; ++id) {  // not sealed
          ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(id, 1, world.Vector(7))}).ok());
        }
        ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Delete(5), Oracle::Delete(700)}).ok());
        ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(9, 2, world.Vector(7))}).ok());
        for (int round = 0; round < 6; ++round) {
          const std::vector<float> q = world.Vector(10), old = world.Vector(7);
          const BoundQuery adapted = Bind(world.to_, q), bound = Bind(world.from_, old);
          SearchRequest request = world.Request(&adapted, round % 3 == 0 ? 5'000 : 20);
          request.carried = carried.get();
          request.view_generation = round % 2 == 0 ? 1 : 2;
          if (round >= 4) request.query = &bound;  // there is another way in, and it is not needed
          if (round >= 2) request.keep = [](uint64_t id, float) { return id % 3 == 0; };
          const auto result = world.index_->View()->Search(request);
          ASSERT_TRUE(result.ok()) << result.status();
          auto truth = world.Truth(q, request.view_generation);
          if (round >= 2) std::erase_if(truth, [](const auto& row) { return row.second % 3 != 0; });
          AdaptedWorld::ExpectRanking(result->hits, truth, request.k,
                                      StrCat(MetricName(metric), " kind ", static_cast<int>(kind), " round ", round));
          EXPECT_LE(result->rows_adapted, 100) << "only what is not sealed is carried by the search";
        }
      }
    }
  }
}

TEST(CarriedSegments, AreInTheProfileBesideTheSegmentsThatAreNotCarried) {
  CarriedWorld world(Metric::kLorentz, 2'300, 7, /*growing_rows_max=*/900);
  ASSERT_TRUE(world.index_->Flush().ok());
  const auto carried = world.Cache();
  ASSERT_TRUE(world.Carry(carried.get()).ok());
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(2'301, 1, world.Vector(7))}).ok());  // not sealed
  const BoundQuery adapted = Bind(world.to_, world.Vector(10));
  SearchRequest request = world.Request(&adapted, 5);
  request.carried = carried.get();
  request.profile = true;
  const auto result = world.index_->View()->Search(request);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<uint64_t> told, there;
  for (const SegmentProfile& segment : result->segments) told.push_back(segment.id);
  for (const SegmentInfo& segment : world.index_->Stats().segments) there.push_back(segment.id);
  std::sort(told.begin(), told.end());
  std::sort(there.begin(), there.end());
  EXPECT_EQ(told, there);
}

TEST(CarriedSegments, AreWalkedAlongTheOldGraphWhereItLeadsThroughThem) {
  CarriedWorld world(Metric::kEuclidean, 14'000, 3, 20'000);
  world.UseTurn();
  ASSERT_TRUE(world.index_->Flush().ok());
  const auto carried = world.Cache();
  ASSERT_TRUE(world.Carry(carried.get()).ok());
  EXPECT_FALSE(fs::exists(world.PathOf(world.SegmentId()) + "/graph.hnsw")) << "a graph was built for nothing";
  int64_t scored = 0, scored_for_half = 0;
  EXPECT_GE(world.Recall(*carried, 0, &scored), 0.95);
  EXPECT_LT(scored / 60, 14'000 / 2) << "scans, not walks";
  EXPECT_GE(world.Recall(*carried, 0.6, &scored_for_half), 0.55);
  EXPECT_LT(scored_for_half, scored) << "what was measured is not used";
}

TEST(CarriedSegments, GetAGraphOfTheirOwnWhereTheOldOneDoesNot) {
  CarriedWorld world(Metric::kEuclidean, 14'000, 3, 20'000);
  world.UseShadow();
  ASSERT_TRUE(world.index_->Flush().ok());
  const auto carried = world.Cache();
  ASSERT_TRUE(world.Carry(carried.get()).ok());
  EXPECT_TRUE(fs::exists(world.PathOf(world.SegmentId()) + "/graph.hnsw"));
  int64_t scored = 0;
  EXPECT_GE(world.Recall(*carried, 0, &scored), 0.95);
  EXPECT_LT(scored / 60, 14'000 / 2) << "scans, not walks";
}

TEST(CarriedSegments, AreOpenedAgainByTheNextStartAndMadeAgainWhenTheyAreDamagedOrAnothers) {
  for (const bool shadow : {false, true}) {
    CarriedWorld world(Metric::kLorentz, 3'000, 5, 20'000);
    shadow ? world.UseShadow() : world.UseTurn();
    ASSERT_TRUE(world.index_->Flush().ok());
    ASSERT_TRUE(world.Carry(world.Cache().get()).ok());
    EXPECT_EQ(world.disk_->used(), 0) << "the cache is gone, its files are not";
    const std::string path = world.PathOf(world.SegmentId());
    const std::vector<float> q = world.Vector(10);
    const auto made_at = [&] { return fs::last_write_time(path + "/vectors.f32"); };
    const auto check = [&](const CarriedSegments& carried, const std::string& what) {
      const BoundQuery adapted = Bind(world.to_, q);
      SearchRequest request = world.Request(&adapted, 20);
      request.carried = &carried;
      const auto result = world.index_->View()->Search(request);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_EQ(result->rows_adapted, 0) << what;
      AdaptedWorld::ExpectRanking(result->hits, world.Truth(q), 20, what);
    };
    const auto first = made_at();
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24);
    fs::create_directories(path + ".flat.tmp");  // what a crash leaves behind
    std::ofstream(path + ".flat.rows") << "rows";
    auto again = world.Cache();
    ASSERT_TRUE(world.Carry(again.get()).ok());
    EXPECT_EQ(made_at(), first) << "carried again though it was there";
    EXPECT_GT(world.disk_->used(), again->bytes() / 2);
    check(*again, "opened");
    EXPECT_FALSE(fs::exists(path + ".flat.tmp") || fs::exists(path + ".flat.rows")) << "leftovers stay";

    const std::vector<std::function<void()>> damages = {
        [&] { fs::remove(path + "/carried.json"); }, [&] { std::ofstream(path + "/carried.json") << "{}"; },
        [&] { fs::resize_file(path + "/vectors.f32", 100); },
        [&] {
          std::fstream file(path + "/codes.i8", std::ios::in | std::ios::out | std::ios::binary);
          file.seekp(1'000);
          file.put('!');
        }};
    for (size_t i = 0; i < damages.size(); ++i) {
      again.reset();
      damages[i]();
      fs::last_write_time(path, long_ago);
      again = world.Cache();
      ASSERT_TRUE(world.Carry(again.get()).ok());
      EXPECT_GT(fs::last_write_time(path), long_ago) << "damage " << i << " is served";
      check(*again, StrCat("after damage ", i));
    }
    again = world.Cache(kAdapterSum + 1);
    fs::last_write_time(path, long_ago);
    ASSERT_TRUE(world.Carry(again.get()).ok());
    EXPECT_GT(fs::last_write_time(path), long_ago) << "another adapter's rows are served";
  }
}

TEST(CarriedSegments, GoWithTheSegmentsThatTheyAreOf) {
  CarriedWorld world(Metric::kCosine, 1'800, 7, /*growing_rows_max=*/900);
  ASSERT_TRUE(world.index_->Flush().ok());
  const auto carried = world.Cache();
  ASSERT_TRUE(world.Carry(carried.get()).ok());
  const uint64_t before = world.SegmentId();
  ASSERT_TRUE(fs::exists(world.PathOf(before)));
  const int64_t used = world.disk_->used();
  ASSERT_TRUE(world.index_->Reconfigure(world.settings_, /*rebuild_now=*/true).ok());
  ASSERT_TRUE(world.index_->Flush().ok());
  const BoundQuery adapted = Bind(world.to_, world.Vector(10));
  SearchRequest request = world.Request(&adapted, 5);
  request.carried = carried.get();
  EXPECT_EQ(world.index_->View()->Search(request)->rows_adapted, 1'800) << "not carried yet";
  ASSERT_TRUE(world.Carry(carried.get()).ok());
  EXPECT_EQ(world.index_->View()->Search(request)->rows_adapted, 0);
  EXPECT_FALSE(fs::exists(world.PathOf(before)));
  EXPECT_EQ(world.disk_->used(), used);
  EXPECT_TRUE(KeepOnlyVersions(world.folder_ / "adapted", std::vector<uint64_t>{2}).ok());
  EXPECT_FALSE(fs::exists(world.folder_ / "adapted/1")) << "the adapter is gone";
  EXPECT_EQ(world.index_->View()->Search(request)->hits.size(), 5u) << "what is mapped stays";
}

TEST(CarriedSegments, NoDiskLeftAnswersTheSame) {
  CarriedWorld world(Metric::kLorentz, 1'300, 7);
  ASSERT_TRUE(world.index_->Flush().ok());
  world.disk_ = std::make_shared<AdaptedBudget>(1'000);
  const auto carried = world.Cache();
  AdaptedRows kept(&*world.adapter_, std::make_shared<AdaptedBudget>(kUnlimited));
  const absl::Status status = world.index_->View()->Adapt(1, &kept, carried.get(), world.settings_, kNever);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("carried_disk_bytes_max"), std::string::npos) << status;
  EXPECT_TRUE(world.Carry(carried.get()).ok()) << "not tried again at once";
  EXPECT_GT(kept.bytes(), 0) << "kept in memory instead";
  const std::vector<float> q = world.Vector(10);
  const BoundQuery adapted = Bind(world.to_, q);
  SearchRequest request = world.Request(&adapted, 20);
  request.carried = carried.get();
  const auto result = world.index_->View()->Search(request);
  ASSERT_TRUE(result.ok());
  AdaptedWorld::ExpectRanking(result->hits, world.Truth(q), 20, "no disk");
}

TEST(CarriedSegments, ARowThatIsNoVectorAsCarriedLeavesItsSegmentToTheSearches) {
  CarriedWorld world(Metric::kEuclidean, 600, 5);
  std::vector<float> far(7, 0.0f);
  far[0] = 9e17f;  // allowed, and carried beyond what is
  ASSERT_TRUE(world.oracle_.Write(world.index_.get(), {Oracle::Add(601, 1, far)}).ok());
  ASSERT_TRUE(world.index_->Flush().ok());
  AdapterSpec spec = world.spec_;
  for (float& x : spec.linear) x *= 100.0f;
  world.UseAdapter(std::move(spec));
  const auto carried = world.Cache();
  const absl::Status status = world.Carry(carried.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("internal id 601"), std::string::npos) << status;
  const BoundQuery adapted = Bind(world.to_, world.Vector(10));
  SearchRequest request = world.Request(&adapted, 1'000);
  request.carried = carried.get();
  EXPECT_EQ(world.index_->View()->Search(request)->hits.size(), 600u);
  EXPECT_EQ(world.disk_->used(), 0);
}

TEST(CarriedSegments, StopWhenTheyAreToldToAndLeaveNothing) {
  CarriedWorld world(Metric::kLorentz, 3'000, 5, 20'000);
  world.UseShadow();
  ASSERT_TRUE(world.index_->Flush().ok());
  const auto carried = world.Cache();
  // The later it is told, the further it has come: rows, codes, measuring, a graph.
  bool done = false;
  for (int told_after = 0; !done; told_after += 1 + told_after / 2) {
    int asked = 0;
    const auto status =
        world.index_->View()->Adapt(1, nullptr, carried.get(), world.settings_, [&] { return ++asked > told_after; });
    done = status.ok();
    if (done) break;
    ASSERT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_EQ(world.disk_->used(), 0);
    EXPECT_EQ(carried->rows(), 0);
    EXPECT_TRUE(!fs::exists(world.folder_ / "adapted/1") || fs::is_empty(world.folder_ / "adapted/1"));
  }
  EXPECT_EQ(carried->rows(), 3'000);
}

TEST(CarriedSegments, StopWhenTheyAreReadThroughAndStay) {
  CarriedWorld world(Metric::kLorentz, 3'000, 5, 20'000);
  ASSERT_TRUE(world.index_->Flush().ok());
  ASSERT_TRUE(world.Carry(world.Cache().get()).ok());
  const std::string file = world.PathOf(world.SegmentId()) + "/vectors.f32";
  const auto made_at = fs::last_write_time(file);
  const auto carried = world.Cache();
  int stopped = 0;
  for (bool done = false; !done;) {
    int asked = 0;
    const auto status = world.index_->View()->Adapt(1, nullptr, carried.get(), world.settings_,
                                                    [&] { return ++asked > 2 * stopped + 2; });
    done = status.ok();
    if (done) break;
    ++stopped;
    ASSERT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    ASSERT_TRUE(fs::exists(file)) << "what is whole is gone";
    EXPECT_EQ(world.disk_->used(), 0);
    EXPECT_EQ(carried->rows(), 0);
  }
  EXPECT_GT(stopped, 0) << "nobody was asked";
  EXPECT_EQ(fs::last_write_time(file), made_at) << "carried again";
  EXPECT_EQ(carried->rows(), 3'000);
}

TEST(CarriedManifest, IsReadAsWrittenAndDamageIsNamed) {
  const CarriedManifest manifest{9, 1, 2, true, {{10, 0.5}, {16, 0.75}}};
  const std::string text = EncodeCarried(manifest);
  const auto read = DecodeCarried(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->segment, 9u);
  EXPECT_EQ(read->vectors_crc32c, 1u);
  EXPECT_EQ(read->adapter_crc32c, 2u);
  EXPECT_TRUE(read->old_graph);
  ASSERT_EQ(read->walks.size(), 2u);
  EXPECT_EQ(read->walks[1].breadth, 16);
  EXPECT_EQ(read->walks[1].recall, 0.75);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    const auto result = DecodeCarried(damaged);
    if (result.ok()) {
      EXPECT_EQ(EncodeCarried(*result), text) << i;  // white space
    } else {
      EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss) << i;
    }
  }
}

}  // namespace
}  // namespace lightcone
