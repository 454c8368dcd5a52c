// Acceptance: eight writers upsert, re-upsert and delete while the server is killed with -9 twenty times. After each
// restart every acknowledged write is there, no deleted item is back, a batch is there as a whole or not at all, every
// search answer agrees with the store, and a segment file with one bit flipped has been rebuilt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "client/scroll_cursor.h"
#include "geometry/bound_query.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/support/temporary_folder.h"
#include "tests/system/oracle.h"
#include "tests/system/writer.h"

namespace lightcone {
namespace {

constexpr int kWriters = 8;
constexpr int kKills = 20;
constexpr uint64_t kItemsOfAWriter = 150;
constexpr int64_t kBatchesOfARound = 25;  // acknowledged before each kill, however fast the machine is
constexpr int kDamageEvery = 3;           // every third restart finds a damaged segment
constexpr char kCollection[] = "crash";
const Space kSpace = {.metric = Metric::kLorentz, .dimension = kDimension, .curvature = 1.0, .clip_radius = 1.0};

class CrashWriter final : public Writer {
 public:
  // `acknowledged`: of all writers.
  CrashWriter(int number, std::atomic<int64_t>* acknowledged)
      : Writer(number, {.items = kItemsOfAWriter, .batch_items_max = 10}), acknowledged_(acknowledged) {}

 private:
  absl::Status Upsert(client::Client& client, const std::set<uint64_t>& items, Version version) override {
    v1::UpsertRequest request;
    request.set_collection(kCollection);
    for (const uint64_t item : items) {
      v1::Item* added = request.add_items();
      added->mutable_id()->set_number(item);
      const std::vector<float> vector = VectorOf(item, version);
      client::SetVector(vector.data(), kDimension, added->mutable_vector());
      added->set_payload_json(PayloadOf(item, version));
    }
    return client.Upsert(request).status();
  }
  absl::Status Delete(client::Client& client, const std::set<uint64_t>& items) override {
    v1::DeleteRequest request;
    request.set_collection(kCollection);
    for (const uint64_t item : items) request.add_ids()->set_number(item);
    return client.Delete(request).status();
  }
  void Acknowledged(const std::set<uint64_t>& items, Version call) override { acknowledged_->fetch_add(1); }

  std::atomic<int64_t>* const acknowledged_;
};

struct Stored {
  std::vector<float> vector;
  Version version = 0;
};

class CrashTest : public testing::Test {
 protected:
  void StartServer() {
    auto server = cli::ChildServer::Start(LIGHTCONE_BINARY_DIR "/bin/lightcone", data_, {"--log-level", "warning"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    client_ = ClientAt(server_->address());
  }

  void MakeCollection() {
    v1::CreateRequest create;
    create.set_name(kCollection);
    create.set_geometry(v1::GEOMETRY_LORENTZ);
    create.set_curvature(1.0);
    create.mutable_index()->set_kind(v1::INDEX_KIND_HNSW);
    create.mutable_index()->set_growing_rows_max(200);
    create.mutable_index()->set_merge_rows_max(600);
    ASSERT_TRUE(client_->CreateCollection(create).ok());
    v1::RegisterRequest manifest;
    manifest.set_collection(kCollection);
    manifest.set_manifest_json(StrCat("{\"dimension\":", kDimension, ",\"curvature\":1.0,\"clip_radius\":1.0}"));
    const auto registered = client_->RegisterGeneration(manifest);
    ASSERT_TRUE(registered.ok()) << registered.status();
    v1::ActivateRequest activate;
    activate.set_collection(kCollection);
    activate.set_generation(1);
    ASSERT_TRUE(client_->ActivateGeneration(activate).ok());
  }

  // Every item of the store, by scrolling.
  void ReadStore() {
    store_.clear();
    v1::ScrollRequest request;
    request.set_collection(kCollection);
    request.set_with_vector(true);
    const auto cursor = client_->Scroll(request);
    v1::ScrollResponse page;
    for (;;) {
      const auto more = cursor->Next(&page);
      ASSERT_TRUE(more.ok()) << more.status();
      if (!*more) break;
      for (const v1::StoredItem& item : page.items()) {
        const auto payload = nlohmann::json::parse(item.payload_json());
        Stored& stored = store_[item.id().number()];
        EXPECT_EQ(stored.version, 0u) << "item " << item.id().number() << " twice in one scroll";
        stored.version = payload["version"].get<Version>();
        stored.vector = client::VectorOf(item.vector()).value();
        EXPECT_EQ(payload["item"].get<uint64_t>(), item.id().number());
      }
    }
  }

  // Get answers what the scroll said.
  void CheckGet() {
    v1::GetRequest request;
    request.set_collection(kCollection);
    request.set_with_vector(true);
    for (uint64_t item = 0; item < kWriters * kItemsOfAWriter; ++item) request.add_ids()->set_number(item);
    const auto answer = client_->Get(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(static_cast<size_t>(answer->items_size()), store_.size());
    for (const v1::StoredItem& item : answer->items()) {
      const auto found = store_.find(item.id().number());
      ASSERT_NE(found, store_.end()) << item.id().number();
      EXPECT_EQ(client::VectorOf(item.vector()).value(), found->second.vector);
      EXPECT_EQ(item.payload_json(), PayloadOf(item.id().number(), found->second.version));
    }
  }

  void CheckOracle(Oracle& oracle) {
    ExpectKept(oracle, [&](uint64_t item) {
      const auto found = store_.find(item);
      if (found == store_.end()) return Version{0};
      EXPECT_EQ(found->second.vector, VectorOf(item, found->second.version)) << "item " << item;
      return found->second.version;
    });
  }

  void CheckSearch(uint64_t seed) {
    v1::SearchRequest request;
    request.set_collection(kCollection);
    request.set_k(20);
    request.set_with_vector(true);
    constexpr int kQueries = 8;
    for (int q = 0; q < kQueries; ++q) {
      const std::vector<float> vector = VectorOf(seed * 1000 + static_cast<uint64_t>(q), 1u << 30);
      client::SetVector(vector.data(), kDimension, request.add_queries()->mutable_vector());
    }
    for (const bool exact : {true, false}) {
      request.set_exact(exact);
      const auto answer = client_->Search(request);
      ASSERT_TRUE(answer.ok()) << answer.status();
      for (int q = 0; q < kQueries; ++q) {
        CheckAnswer(client::VectorOf(request.queries(q).vector()).value(), answer->results(q), exact);
      }
    }
  }

  // Every hit is an item of the store at its true distance; an exact answer is the brute-force ranking.
  void CheckAnswer(const std::vector<float>& query, const v1::QueryResult& result, bool exact) {
    const BoundQuery bound = BoundQuery::Make(kSpace, kSpace, query).value();
    std::vector<double> distances;
    for (const auto& [item, stored] : store_) distances.push_back(bound.Distance(stored.vector));
    std::sort(distances.begin(), distances.end());
    ASSERT_EQ(static_cast<size_t>(result.hits_size()), std::min<size_t>(20, store_.size())) << "exact " << exact;
    for (int i = 0; i < result.hits_size(); ++i) {
      const v1::Hit& hit = result.hits(i);
      const auto found = store_.find(hit.id().number());
      ASSERT_NE(found, store_.end()) << "item " << hit.id().number() << " is found but not stored";
      EXPECT_EQ(client::VectorOf(hit.vector()).value(), found->second.vector);
      EXPECT_DOUBLE_EQ(hit.distance(), bound.Distance(found->second.vector));
      if (exact) {
        EXPECT_DOUBLE_EQ(hit.distance(), distances[static_cast<size_t>(i)]) << "rank " << i;
      }
    }
  }

  bool HasSealedSegment() {
    v1::CollectionsGetRequest request;
    request.set_name(kCollection);
    const auto answer = client_->GetCollection(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() && std::any_of(answer->collection().segments().begin(), answer->collection().segments().end(),
                                      [](const auto& segment) { return segment.kind() != "growing"; });
  }

  // Until the writers have got their batches of this round acknowledged, and, when one will be damaged, a segment is
  // sealed; they write on meanwhile.
  void AwaitProgress(const std::atomic<int64_t>& acknowledged, int64_t target, bool sealed) {
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (acknowledged.load() < target || (sealed && !HasSealedSegment())) {
      ASSERT_LT(absl::Now(), limit) << acknowledged.load() << " of " << target << " batches were acknowledged";
      ASSERT_FALSE(HasFailure());
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  // Flips one bit in a file of a sealed segment; the path, or "" when there is none.
  std::string DamageASegment(std::mt19937_64& random) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data_ + "/index")) {
      const std::string path = entry.path().string();
      const bool sealed = path.find("/segments/") != std::string::npos && path.find(".tmp") == std::string::npos;
      // The states are written anew by every start, so that they would prove nothing.
      if (entry.is_regular_file() && sealed && entry.file_size() > 0 && !path.ends_with("states.u32"))
        files.push_back(path);
    }
    std::sort(files.begin(), files.end());
    if (files.empty()) return "";
    const std::string path = files[random() % files.size()];
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto offset = static_cast<std::streamoff>(random() % std::filesystem::file_size(path));
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ (1 << (random() % 8)));
    file.seekp(offset);
    file.put(byte);
    return path;
  }

  // Every segment that a checkpoint names is on the disk, whenever the kill came, but for those that were damaged: a
  // start removes what it finds so, and the next checkpoint, which leaves it out, may come many writes later. Gives how
  // many there are.
  size_t CheckNamedSegments(const std::set<std::string>& damaged) {
    size_t named = 0;
    for (const auto& index : std::filesystem::directory_iterator(data_ + "/index")) {
      const auto text = ReadFile(index.path().string() + "/index.json");
      if (!text.ok()) continue;  // killed before the first checkpoint
      const auto checkpoint = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
      for (const auto& generation : checkpoint.at("content").at("generations")) {
        for (const auto& id : generation.at("segments")) {
          const std::string folder = StrCat(index.path().string(), "/segments/", id.get<uint64_t>());
          if (damaged.contains(folder)) continue;
          EXPECT_TRUE(std::filesystem::exists(folder + "/manifest.json")) << folder;
          ++named;
        }
      }
    }
    return named;
  }

  // Until the server has read all files through and mended what it found: a start does not wait for that.
  void AwaitMended(const std::string& path, const std::string& bytes) {
    const std::string& address = server_->http_address();
    httplib::Client http("127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1)));
    const std::string label = StrCat("_segments{collection=\"", kCollection, "\"} 0\n");
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (true) {
      const auto page = http.Get("/metrics");
      const bool mended = page && page->body.find("lightcone_index_unchecked" + label) != std::string::npos &&
                          page->body.find("lightcone_index_damaged" + label) != std::string::npos;
      const auto now = ReadFile(path);
      if (mended && (!now.ok() || *now != bytes)) return;
      ASSERT_LT(absl::Now(), limit) << "the damaged " << path << " is still in use";
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  TemporaryFolder folder_;
  const std::string data_ = folder_ / "data";
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  std::map<uint64_t, Stored> store_;
};

TEST_F(CrashTest, NothingAcknowledgedIsLostOverTwentyKillsAndDamagedSegmentsAreRebuilt) {
  std::mt19937_64 random(20);
  std::atomic<int64_t> acknowledged{0};
  std::vector<std::unique_ptr<CrashWriter>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(std::make_unique<CrashWriter>(i, &acknowledged));
  StartServer();
  ASSERT_FALSE(HasFatalFailure());
  MakeCollection();
  std::set<std::string> damaged;  // folders of segments
  int missing = 0;
  const auto done = [&](int kill) {
    return kill > kKills && static_cast<int>(damaged.size()) == kKills / kDamageEvery;
  };
  for (int kill = 1; !done(kill) && kill <= 2 * kKills; ++kill) {
    std::vector<std::thread> threads;
    for (const auto& writer : writers) threads.emplace_back([&] { writer->Run(server_->address()); });
    const bool damages = static_cast<int>(damaged.size()) < kill / kDamageEvery;
    AwaitProgress(acknowledged, kill * kBatchesOfARound, damages);
    // The kill comes at a random point after that.
    absl::SleepFor(absl::Milliseconds(static_cast<int64_t>(random() % 200)));
    server_->Kill();
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(HasFailure()) << "before kill " << kill;

    const size_t named = CheckNamedSegments(damaged);
    std::string path, bytes;
    if (damages) {
      // "": none is on the disk now, as when all rows of the only one were written anew meanwhile. The next kill has
      // one.
      path = DamageASegment(random);
      if (!path.empty()) bytes = ReadFile(path).value();
      missing += path.empty();
      EXPECT_TRUE(!path.empty() || named == 0) << named << " segments are missing after kill " << kill;
    }
    StartServer();
    ASSERT_FALSE(HasFatalFailure()) << "after kill " << kill;
    if (!path.empty()) {
      AwaitMended(path, bytes);
      ASSERT_FALSE(HasFatalFailure()) << "after kill " << kill;
      EXPECT_TRUE(damaged.insert(std::filesystem::path(path).parent_path().string()).second) << path << " twice";
    }
    ReadStore();
    CheckGet();
    for (const auto& writer : writers) CheckOracle(writer->oracle());
    CheckSearch(static_cast<uint64_t>(kill));
    ASSERT_FALSE(HasFailure()) << "after kill " << kill << (path.empty() ? "" : ", damaged: " + path);
  }
  EXPECT_EQ(static_cast<int>(damaged.size()), kKills / kDamageEvery);
  EXPECT_GE(acknowledged.load(), kKills * kBatchesOfARound);
  RecordProperty("acknowledged_batches", static_cast<int>(acknowledged.load()));
  RecordProperty("damaged_segments", static_cast<int>(damaged.size()));
  std::printf("%lld batches acknowledged, %zu segments damaged, none there to damage %d times, %zu items at the end\n",
              static_cast<long long>(acknowledged.load()), damaged.size(), missing, store_.size());
  EXPECT_EQ(server_->Terminate(), 0);
}

}  // namespace
}  // namespace lightcone
