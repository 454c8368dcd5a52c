// 2,000 random collections: whatever their space, generations, index, filters and history, exact searches equal brute
// force in double precision, and the recall that is said of approximate ones is the one that they have.
#include <algorithm>
#include <set>

#include "server/engine/core/engine_impl.h"
#include "server/engine/live/live_sampler.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/naive_filter.h"
#include "tests/engine/random_filters.h"

namespace lightcone::server {
namespace {

using Json = nlohmann::json;

constexpr int kCollections = 2'000;

// What all collections of approximate searches found, by what they asked for.
struct Found {
  int64_t expected = 0, found = 0;
};
constexpr double kNarrow = -1;
using FoundByTarget = std::map<double, Found>;  // 0: nothing asked for

class World {
 public:
  World(Engine* engine, uint32_t seed) : engine_(engine), random_(seed), cases_(seed) {}

  void Live() {
    Create();
    for (int round = 0; round < 2 && !testing::Test::HasFatalFailure(); ++round) {
      Write();
      Change();
      for (int i = 0; i < 3 && !testing::Test::HasFatalFailure(); ++i) CheckExact();
    }
  }

  // Approximate searches, and what the server says of their recall: the share of the exact hits that they had. The
  // server repeats each of them; where a segment was built between the two, a narrow one may find other neighbours.
  // True where none was, so that both had to find the same.
  bool CheckRecall(FoundByTarget* all) {
    bool still = false;
    CheckRecall(all, &still);
    return still;
  }

 private:
  void CheckRecall(FoundByTarget* all, bool* still) {
    Found here;
    const int64_t builds = engine_->GetCollection("c")->builds_total;
    uint64_t searches = 0;
    for (int i = 0; i < 4; ++i) {
      SearchCall call = RandomCall();
      const auto exact = engine_->Search(call, {});
      if (!exact.ok()) continue;  // CheckExact knows why
      call.exact = false;
      double asked = 0;
      if (Below(2) == 0) asked = call.target_recall = Below(2) == 0 ? 0.9 : 0.99;
      if (asked == 0 && Below(2) == 0) {
        asked = kNarrow;  // misses neighbours, and the server has to say so
        call.ef = call.nprobe = 1;
      }
      const auto answer = engine_->Search(call, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      ++searches;
      const auto truth = Truth(call);
      const std::vector<EngineHit>& hits = answer->results[0].hits;
      ASSERT_EQ(hits.size(), truth.size()) << "there are more that pass";
      std::set<ItemId> nearest;
      for (const EngineHit& hit : exact->results[0].hits) nearest.insert(hit.id);
      Found& by_target = (*all)[asked];
      // Of those as far as the last any will do.
      const double last = exact->results[0].hits.empty() ? 0 : exact->results[0].hits.back().distance;
      const auto as_far = [last](const std::vector<EngineHit>& in) {
        return std::count_if(in.begin(), in.end(), [last](const EngineHit& hit) { return hit.distance == last; });
      };
      for (const EngineHit& hit : hits) {
        here.found += static_cast<int64_t>(hit.distance < last && nearest.contains(hit.id));
        by_target.found += hit.distance <= truth.back().first;
      }
      here.found += std::min(as_far(hits), as_far(exact->results[0].hits));
      here.expected += static_cast<int64_t>(truth.size());
      by_target.expected += static_cast<int64_t>(truth.size());
    }
    ASSERT_TRUE(static_cast<EngineImpl*>(engine_)->live_sampler().WaitIdle(absl::Now() + absl::Minutes(2)));
    const auto said = engine_->GetLiveRecall("c");
    ASSERT_TRUE(said.ok()) << said.status();
    ASSERT_EQ(said->samples, searches);
    Found said_here;
    for (const LiveRecall& one : said->recall) {
      said_here.expected += static_cast<int64_t>(one.expected);
      said_here.found += static_cast<int64_t>(one.found);
    }
    ASSERT_EQ(said_here.expected, here.expected);
    *still = engine_->GetCollection("c")->builds_total == builds;
    ASSERT_TRUE(!*still || said_here.found == here.found) << said_here.found << " said, " << here.found << " found";
  }

  struct Item {
    Json payload;
    std::map<uint32_t, std::vector<float>> embeddings;  // of its content, by generation
  };

  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  double Unit() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  uint32_t AGeneration() { return 1 + static_cast<uint32_t>(Below(spaces_.size())); }

  void Create() {
    static constexpr int kDimensions[] = {1, 2, 3, 7, 8, 15, 16, 17, 32, 33, 64, 100, 128};
    Space space;
    space.metric = static_cast<Metric>(Below(4));
    space.dimension = kDimensions[Below(std::size(kDimensions))];
    space.curvature = static_cast<double>(1 + Below(24)) / 16;
    CreateCollectionCall call;
    call.name = "c";
    call.metric = space.metric;
    call.curvature = space.curvature;
    call.index = RandomSettings(space.dimension);
    if (Below(2) == 0) call.payload_fields = {{"a", PayloadType::kInteger}, {"b", PayloadType::kKeyword}};
    const auto made = engine_->CreateCollection(call);
    ASSERT_TRUE(made.ok()) << made.status();
    const size_t generations = 1 + Below(3);
    for (uint32_t g = 1; g <= generations; ++g) {
      space.clip_radius = static_cast<double>(8 + Below(24)) / 16;
      RegisterCall generation;
      generation.collection = "c";
      generation.manifest_json = ManifestFor(space.dimension, space.curvature, space.clip_radius);
      generation.parent = g - 1;
      const auto registered = engine_->RegisterGeneration(generation);
      ASSERT_TRUE(registered.ok()) << registered.status();
      spaces_.push_back(registered->space);
    }
    Activate(1);
  }

  IndexSettings RandomSettings(int dimension) {
    IndexSettings settings;
    static constexpr RowCodes kCodes[] = {RowCodes::kFloat32, RowCodes::kInt8, RowCodes::kHalf, RowCodes::kAuto};
    settings.kind = static_cast<SealedKind>(Below(4));
    settings.codes = settings.kind == SealedKind::kIvf && Below(3) == 0 ? RowCodes::kPq : kCodes[Below(4)];
    settings.pq_m = Below(2) == 0 ? 0 : 1;
    settings.ivf_lists = static_cast<int>(Below(9));
    settings.growing_rows_max = 30 + static_cast<int64_t>(Below(300));
    settings.hnsw_m = 4 + static_cast<int>(Below(12));
    settings.hnsw_ef_construction = 32;
    settings.hnsw_ef_search = 32;
    if (!settings.ValidateFor(dimension).ok()) settings.codes = RowCodes::kFloat32;
    return settings;
  }

  void Activate(uint32_t generation) {
    ActivateCall call;
    call.collection = "c";
    call.generation = generation;
    call.force = true;
    call.reason = "a test";
    const auto done = engine_->ActivateGeneration(call);
    ASSERT_TRUE(done.ok()) << done.status();
  }

  std::vector<float> Vector() {
    std::vector<float> z(static_cast<size_t>(spaces_[0].dimension));
    const bool grid = Below(5) == 0;  // many exact ties
    std::normal_distribution<double> normal;
    for (float& x : z) x = grid ? static_cast<float>(Below(3)) - 1 : static_cast<float>(normal(random_));
    if (grid) z[0] = 1;
    const double scale = grid ? 1 : (0.05 + 2 * Unit()) / std::max(1e-3, NormOf(z));
    for (float& x : z) x = static_cast<float>(x * scale);
    return z;
  }

  // New items, new content of old ones, embeddings by newer generations, deletions.
  void Write() {
    const size_t batches = 1 + Below(3);
    for (size_t b = 0; b < batches; ++b) {
      const uint32_t generation = AGeneration();
      UpsertBatch fresh = BatchOf({}, generation), again = BatchOf({}, generation, /*same_content=*/true);
      fresh.durability = again.durability = Durability::kProcess;
      for (size_t i = 10 + Below(120); i > 0; --i) {
        const uint64_t id = items_.empty() || Below(4) != 0 ? next_++ : Below(next_);
        Item item{cases_.Object(2), {{generation, Vector()}}};
        fresh.items.push_back(ItemOf(Id(id), item.embeddings[generation], item.payload.dump()));
        items_[id] = std::move(item);
      }
      // An item may be in a batch once.
      std::map<uint64_t, size_t> last;
      for (size_t i = 0; i < fresh.items.size(); ++i) last[std::get<uint64_t>(fresh.items[i].id.value)] = i;
      std::vector<UpsertItem> once;
      for (const auto& [id, place] : last) once.push_back(fresh.items[place]);
      fresh.items = std::move(once);
      const auto written = engine_->Upsert(std::move(fresh), {});
      ASSERT_TRUE(written.ok()) << written.status();
      for (auto& [id, item] : items_) {
        if (item.embeddings.rbegin()->first >= generation || Below(3) != 0) continue;
        item.embeddings[generation] = Vector();
        again.items.push_back(ItemOf(Id(id), item.embeddings[generation]));
      }
      if (!again.items.empty()) {
        const auto embedded = engine_->Upsert(std::move(again), {});
        ASSERT_TRUE(embedded.ok()) << embedded.status();
      }
      std::vector<ItemId> gone;
      for (auto item = items_.begin(); item != items_.end();) {
        const bool goes = Below(8) == 0;
        if (goes) gone.push_back(Id(item->first));
        item = goes ? items_.erase(item) : std::next(item);
      }
      const auto deleted = engine_->Delete("c", gone, Durability::kProcess, {});
      ASSERT_TRUE(gone.empty() || deleted.ok()) << deleted.status();
    }
  }

  // What an operator may do meanwhile.
  void Change() {
    if (Below(2) == 0) Activate(AGeneration());
    if (Below(2) == 0) {
      IndexChange change;
      if (Below(2) == 0) change = RandomSettings(spaces_[0].dimension);
      const auto built = engine_->Rebuild("c", change, true, "", {});
      ASSERT_TRUE(built.ok()) << built.status();
    }
    if (Below(4) == 0) {
      IndexPayloadCall call;
      call.collection = "c";
      call.add = {{"c", static_cast<PayloadType>(Below(4))}};
      call.wait = true;
      if (Below(2) == 0 && !(*engine_->GetCollection("c")).payload_indexes.empty()) {
        call.drop = {engine_->GetCollection("c")->payload_indexes[0].field.path};
        if (call.drop[0] == "c") call.add.clear();
      }
      const auto indexed = engine_->IndexPayload(call, {});
      ASSERT_TRUE(indexed.ok() || absl::IsAlreadyExists(indexed.status())) << indexed.status();
    }
  }

  SearchCall RandomCall() {
    SearchCall call = SearchFor(Vector(), 1 + static_cast<int64_t>(Below(Below(4) == 0 ? 200 : 12)), AGeneration());
    if (Below(2) == 0) call.filter = cases_.Node(2);
    call.with_payload = Below(4) == 0;
    return call;
  }

  // The k nearest by brute force, for a view of the call's generation.
  std::vector<std::pair<double, uint64_t>> Truth(const SearchCall& call) const {
    std::vector<std::pair<double, uint64_t>> truth;
    const auto& z = std::get<std::vector<float>>(call.queries[0].content);
    for (const auto& [id, item] : items_) {
      const auto newer = item.embeddings.upper_bound(call.generation);
      if (newer == item.embeddings.begin()) continue;  // embedded by newer generations alone
      const auto& [generation, row] = *std::prev(newer);
      if (call.filter && !Naive(*call.filter, item.payload)) continue;
      const auto bound = BoundQuery::Make(spaces_[call.generation - 1], spaces_[generation - 1], z);
      EXPECT_TRUE(bound.ok()) << bound.status();
      truth.emplace_back(bound->Distance(row), id);
    }
    std::sort(truth.begin(), truth.end());
    truth.resize(std::min(truth.size(), static_cast<size_t>(call.k)));
    return truth;
  }

  void CheckExact() {
    const SearchCall call = RandomCall();
    const auto answer = engine_->Search(call, {});
    if (!answer.ok()) {  // nothing that this generation can see
      ASSERT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition) << answer.status();
      ASSERT_TRUE(NothingVisible(call.generation)) << answer.status();
      return;
    }
    const auto truth = Truth(call);
    const std::vector<EngineHit>& hits = answer->results[0].hits;
    ASSERT_EQ(hits.size(), truth.size());
    std::set<uint64_t> seen;
    for (size_t i = 0; i < hits.size(); ++i) {
      const uint64_t id = std::get<uint64_t>(hits[i].id.value);
      ASSERT_EQ(hits[i].distance, truth[i].first) << "rank " << i;
      ASSERT_TRUE(seen.insert(id).second) << "twice: " << id;
      if (i + 1 < hits.size() && truth[i + 1].first != truth[i].first &&
          (i == 0 || truth[i - 1].first != truth[i].first)) {
        ASSERT_EQ(id, truth[i].second) << "rank " << i;
      }
      if (call.with_payload) {
        ASSERT_EQ(Json::parse(hits[i].payload_json), items_.at(id).payload);
      }
    }
  }
  bool NothingVisible(uint32_t generation) const {
    return std::all_of(items_.begin(), items_.end(),
                       [&](const auto& item) { return item.second.embeddings.begin()->first > generation; });
  }

  Engine* engine_;
  std::mt19937 random_;
  RandomCases cases_;
  std::vector<Space> spaces_;  // of generation 1 first
  std::map<uint64_t, Item> items_;
  uint64_t next_ = 0;
};

TEST(Property, RandomCollectionsAnswerAsBruteForceAndSayTheirRecall) {
  TemporaryFolder folder;
  EngineOptions options = OptionsFor(folder.path());
  options.live_recall = {.sample_share = 1, .capacity_share_max = 1, .queue_max = 1'000};
  const auto engine = OpenEngine(options);
  ASSERT_NE(engine, nullptr);
  FoundByTarget found;
  int compared = 0;
  for (uint32_t seed = 0; seed < kCollections; ++seed) {
    SCOPED_TRACE(StrCat("collection ", seed));
    World world(engine.get(), seed);
    world.Live();
    if (testing::Test::HasFatalFailure()) return;
    compared += world.CheckRecall(&found);
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(engine->DropCollection("c", "").ok());
  }
  std::printf("compared: %d\n", compared);
  EXPECT_GE(compared, kCollections * 9 / 10) << "the others were built anew meanwhile";
  for (const auto& [target, sum] : found) {
    const double recall = static_cast<double>(sum.found) / static_cast<double>(sum.expected);
    RecordProperty(StrCat("recall_", target).c_str(), StrCat(recall));
    std::printf("asked for %.2f: %.4f of %ld\n", target, recall, static_cast<long>(sum.expected));
    EXPECT_GE(recall, target == kNarrow ? 0 : std::max(target, 0.95));
  }
}

}  // namespace
}  // namespace lightcone::server
