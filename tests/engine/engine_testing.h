// What the engine's tests share: an engine over a temporary folder, short ways to write and search, and a naive truth.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "geometry/bound_query.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/api/engine.h"
#include "store/store.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {

inline EngineOptions OptionsFor(const std::string& folder) {
  EngineOptions options;
  options.data_folder = folder;
  options.helper_program = LIGHTCONE_BINARY_DIR "/bin/lightcone-model";
  options.helper_niceness = 0;  // Tests wait for backfills.
  options.store.memory_bytes = 32 << 20;
  options.search_threads = 2;
  options.live_recall.sample_share = 0;  // nothing runs that a test did not ask for
  return options;
}

inline std::unique_ptr<Engine> OpenEngine(const EngineOptions& options) {
  auto engine = Engine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? std::move(*engine) : nullptr;
}
inline std::unique_ptr<Engine> OpenEngine(const std::string& folder) { return OpenEngine(OptionsFor(folder)); }

// True when the status has this code and its message holds all of the texts; prints it otherwise.
inline ::testing::AssertionResult Fails(const absl::Status& status, absl::StatusCode code,
                                        const std::vector<std::string>& texts) {
  if (status.code() != code) return ::testing::AssertionFailure() << "code of: " << status;
  for (const std::string& text : texts) {
    if (MessageOf(status).find(text) == std::string::npos) {
      return ::testing::AssertionFailure() << "'" << text << "' is not in: " << status;
    }
  }
  return ::testing::AssertionSuccess();
}
template <typename T>
::testing::AssertionResult Fails(const absl::StatusOr<T>& result, absl::StatusCode code,
                                 const std::vector<std::string>& texts) {
  return Fails(result.status(), code, texts);
}

inline std::string ManifestFor(int dimension, double curvature = 1.0, double clip_radius = 2.0) {
  return StrCat("{\"dimension\":", dimension, ",\"curvature\":", curvature, ",\"clip_radius\":", clip_radius, "}");
}

inline ItemId Id(uint64_t number) { return ItemId{number}; }
inline ItemId Id(const char* name) { return ItemId{std::string(name)}; }

inline UpsertItem ItemOf(ItemId id, std::vector<float> vector, std::string payload = "") {
  UpsertItem item;
  item.id = std::move(id);
  item.content = std::move(vector);
  item.payload_json = std::move(payload);
  return item;
}

inline UpsertBatch BatchOf(std::vector<UpsertItem> items, uint32_t generation = 0, bool same_content = false) {
  UpsertBatch batch;
  batch.collection = "c";
  batch.generation = generation;
  batch.items = std::move(items);
  batch.same_content = same_content;
  return batch;
}

inline SearchCall SearchFor(std::vector<float> vector, int64_t k = 10, uint32_t generation = 0) {
  SearchCall call;
  call.collection = "c";
  call.generation = generation;
  call.k = k;
  call.exact = true;
  call.queries.resize(1);
  call.queries[0].content = std::move(vector);
  return call;
}

inline FilterNode Leaf(FilterNode::Kind kind, std::string field, std::vector<FilterValue> values = {}) {
  FilterNode node;
  node.kind = kind;
  node.field = std::move(field);
  node.values = std::move(values);
  return node;
}
inline FilterNode Branch(FilterNode::Kind kind, std::vector<FilterNode> children = {}) {
  FilterNode node;
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

inline std::vector<float> RandomVector(std::mt19937* random, int dimension, float scale = 1.0f) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> vector(static_cast<size_t>(dimension));
  for (float& x : vector) x = normal(*random);
  return vector;
}

// An engine with a Lorentz collection "c" of dimension 4 and `generations` in a line of parents; the first is active.
class EngineTest : public ::testing::Test {
 protected:
  static constexpr int kDimension = 4;

  void SetUp() override { engine_ = OpenEngine(folder_.path()); }

  void MakeCollection(int generations = 1, Metric metric = Metric::kLorentz) {
    CreateCollectionCall call;
    call.name = "c";
    call.metric = metric;
    const auto made = engine_->CreateCollection(call);
    ASSERT_TRUE(made.ok()) << made.status();
    for (int g = 1; g <= generations; ++g) Register(static_cast<uint32_t>(g - 1));
    if (generations > 0) Activate(1);
  }
  void Register(uint32_t parent) {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ManifestFor(kDimension);
    call.parent = parent;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void Activate(uint32_t generation, bool force = false) {
    ActivateCall call;
    call.collection = "c";
    call.generation = generation;
    call.force = force;
    call.reason = force ? "a test" : "";
    const auto answer = engine_->ActivateGeneration(call);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  uint64_t Write(UpsertBatch batch) {
    const auto written = engine_->Upsert(std::move(batch), {});
    EXPECT_TRUE(written.ok()) << written.status();
    return written.ok() ? written->sequence : 0;
  }
  std::vector<EngineHit> Hits(const SearchCall& call) {
    const auto answer = engine_->Search(call, {});
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return {};
    EXPECT_TRUE(answer->results[0].status.ok()) << answer->results[0].status;
    return answer->results[0].hits;
  }
  std::vector<std::string> HitNames(const SearchCall& call) {
    std::vector<std::string> names;
    for (const EngineHit& hit : Hits(call)) names.push_back(StrCat(ToString(hit.id), "@", hit.generation));
    return names;
  }
  // Closes and opens, as a server that ends and starts.
  void Restart() {
    engine_.reset();
    engine_ = OpenEngine(folder_.path());
    ASSERT_NE(engine_, nullptr);
  }

  // Changes the store behind a closed engine.
  void EditStore(const std::function<void(Store*, WriteBatch*)>& edit) {
    engine_.reset();
    const EngineOptions options = OptionsFor(folder_.path());
    auto store = OpenStore(options.data_folder + "/store", options.store);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteBatch batch;
    edit(store->get(), &batch);
    ASSERT_TRUE((*store)->Write(batch, Durability::kDurable).ok());
  }

  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace lightcone::server
