// What the tests of restored collections share: the collection as text, item by item; what no collection owns in a data
// folder; and a store whose writes a test sees first.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/collection/meta.h"
#include "server/engine/core/engine_impl.h"
#include "store/keys.h"
#include "tests/engine/adapter_world.h"
#include "tests/engine/forwarding_store.h"

namespace lightcone::server {

namespace fs = std::filesystem;
using Code = absl::StatusCode;

// What a test hears of a store once it is armed, and may answer in its place. Counts begin at 1.
struct Watch {
  std::function<absl::Status(int n)> before_write = [](int) { return absl::OkStatus(); };
  std::function<void(int n)> after_write = [](int) {};
  std::function<absl::Status(int n)> growth = [](int) { return absl::OkStatus(); };
  std::function<void(Table table)> before_scan = [](Table) {};
  std::atomic<bool> armed{false};
  std::atomic<int> writes{0}, questions{0};
  std::atomic<uint64_t> growth_bytes{0};  // bytes of the last question about growth
};

class WatchedStore final : public ForwardingStore {
 public:
  WatchedStore(std::unique_ptr<Store> inner, Watch* watch) : ForwardingStore(std::move(inner)), watch_(watch) {}

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    if (!watch_->armed) return ForwardingStore::Write(batch, durability);
    const int n = ++watch_->writes;
    LC_RETURN_IF_ERROR(watch_->before_write(n));
    const absl::Status written = ForwardingStore::Write(batch, durability);
    watch_->after_write(n);
    return written;
  }
  absl::Status CheckGrowth(uint64_t bytes) const override {
    if (!watch_->armed) return ForwardingStore::CheckGrowth(bytes);
    watch_->growth_bytes = bytes;
    return watch_->growth(++watch_->questions);
  }
  std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const override {
    if (watch_->armed) watch_->before_scan(table);
    return ForwardingStore::Scan(table, begin, end);
  }

 private:
  Watch* const watch_;
};

inline std::unique_ptr<Engine> OpenWatched(const std::string& folder, Watch* watch) {
  const EngineOptions options = OptionsFor(folder);
  auto store = OpenStore(options.data_folder + "/store", options.store);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return nullptr;
  auto engine = std::make_unique<EngineImpl>(options, std::make_unique<WatchedStore>(std::move(*store), watch));
  const absl::Status loaded = engine->Load();
  EXPECT_TRUE(loaded.ok()) << loaded;
  return loaded.ok() ? std::move(engine) : nullptr;
}

inline std::string TextOf(const StoredItem& item) {
  std::string text = StrCat(ToString(item.id), " ", item.payload_json, " generation ", item.generation, " sequence ",
                            item.sequence, " uncertainty ", std::bit_cast<uint64_t>(item.uncertainty), " of");
  for (const uint32_t g : item.generations) text += StrCat(" ", g);
  for (const float x : item.vector) text += StrCat(" ", std::bit_cast<uint32_t>(x));
  return text;
}

// Every item with its payload, and its vector and uncertainty by each generation that embedded it.
inline std::vector<std::string> ItemsOf(Engine& engine, const std::string& collection) {
  std::vector<std::string> texts;
  std::map<uint32_t, std::vector<ItemId>> by_generation;
  std::string token;
  do {
    const auto page = engine.Scroll(collection, std::nullopt, 500, token, true, {});
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return texts;
    for (const StoredItem& item : page->items) {
      texts.push_back(TextOf(item));
      for (const uint32_t g : item.generations) by_generation[g].push_back(item.id);
    }
    token = page->token;
  } while (!token.empty());
  for (const auto& [generation, ids] : by_generation) {
    const auto got = engine.Get(collection, ids, generation, true, {});
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return texts;
    for (const StoredItem& item : got->items) texts.push_back(TextOf(item));
  }
  return texts;
}

inline uint32_t NumberIn(std::string_view key) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4 && i < key.size(); ++i) number = number << 8 | static_cast<uint8_t>(key[i]);
  return number;
}

// Rows and folders of numbers that no collection has, but for the audit log, which outlives a collection. The folder
// must not be in use.
inline std::vector<std::string> StraysIn(const std::string& folder) {
  std::vector<std::string> strays;
  const EngineOptions options = OptionsFor(folder);
  const auto store = OpenStore(options.data_folder + "/store", options.store);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return strays;
  std::set<uint32_t> known;
  const auto records = (*store)->Scan(Table::kCollections, "", "");
  for (; records->Valid(); records->Next()) known.insert(NumberIn(records->key()));
  for (const Table table : {Table::kGenerations, Table::kItems, Table::kEmbeddings, Table::kOrder, Table::kChanges,
                            Table::kInputs, Table::kProbes}) {
    const auto rows = (*store)->Scan(table, "", "");
    for (; rows->Valid(); rows->Next()) {
      if (known.contains(NumberIn(rows->key()))) continue;
      strays.push_back(StrCat("table ", TableName(table), ", number ", NumberIn(rows->key())));
    }
    EXPECT_TRUE(rows->status().ok()) << rows->status();
  }
  const auto rows = (*store)->Scan(Table::kMeta, "", "");
  for (; rows->Valid(); rows->Next()) {
    const std::string key(rows->key());
    if (key.starts_with(keys::Meta(kDroppingPrefix))) strays.push_back(key);
    for (const std::string prefix : {"progress/", "backfill/", "backfill_head/"}) {
      if (!key.starts_with(keys::Meta(prefix))) continue;
      const auto number = ParseNumber(std::string_view(key).substr(keys::Meta(prefix).size()), "number");
      if (!number.ok() || !known.contains(*number)) strays.push_back(key);
    }
  }
  for (const char* const name : {"/index", "/encoders"}) {
    std::error_code error;
    for (fs::directory_iterator it(folder + name, error), end; !error && it != end; it.increment(error)) {
      const auto number = ParseNumber(it->path().filename().string(), "number");
      if (!number.ok() || !known.contains(*number)) strays.push_back(it->path().string());
    }
  }
  return strays;
}

class CollectionRestoreTest : public AdapterTest {
 protected:
  void TearDown() override {
    engine_.reset();
    std::error_code ignored;
    fs::remove_all(folder_.path() + "-other", ignored);
  }

  SnapshotStatus Make(const CreateSnapshotCall& call) {
    const auto made = engine_->snapshots().Create(call, {});
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : SnapshotStatus{};
  }
  static absl::StatusOr<RestoredCollection> Restore(Engine& engine, const std::string& name,
                                                    const std::string& request_id = "") {
    return engine.snapshots().RestoreCollection(
        {.request_id = request_id, .snapshot = "all", .collection = "c", .name = name}, {});
  }
  // Items 1 .. 60 with payloads in "c", some of them deleted or written twice; the snapshot "all".
  void MakeSmallWorld() {
    MakeCollection();
    std::vector<UpsertItem> items;
    for (uint64_t id = 1; id <= 60; ++id) {
      items.push_back(ItemOf(Id(id), RandomVector(&random_, kDimension), StrCat("{\"n\":", id, "}")));
    }
    Write(BatchOf(items));
    items.resize(20);
    Write(BatchOf(std::move(items)));
    ASSERT_TRUE(engine_->Delete("c", {Id(7), Id(8)}, Durability::kDurable, {}).ok());
    Make({"all"});
  }
  // Exact searches of two collections, perhaps in two servers, find the same.
  void ExpectSameHits(Engine& one, const std::string& name, Engine& other, const std::string& other_name,
                      uint32_t generation) {
    for (int i = 0; i < 5; ++i) {
      SearchCall call = SearchFor(RandomVector(&random_, old_.dimension, 0.6f), 100, generation);
      std::vector<std::string> found[2];
      for (const bool second : {false, true}) {
        call.collection = second ? other_name : name;
        const auto answer = (second ? other : one).Search(call, {});
        ASSERT_TRUE(answer.ok()) << answer.status();
        for (const EngineHit& hit : answer->results[0].hits) {
          found[second].push_back(StrCat(ToString(hit.id), "@", hit.generation));
        }
      }
      // Neighbours that are as near as float32 can tell may change places.
      for (std::vector<std::string>& names : found) std::sort(names.begin(), names.end());
      EXPECT_EQ(found[0], found[1]);
      EXPECT_FALSE(found[0].empty());
    }
  }
  void ExpectNoStrays(const std::string& what) {
    engine_.reset();
    EXPECT_THAT(StraysIn(folder_.path()), ::testing::IsEmpty()) << what;
  }

  std::atomic<int64_t> now_ms_{1'700'000'000'000};  // time of an engine whose clock a test moves
};

}  // namespace lightcone::server
