// A server with something to show in every corner of the console: the console's test looks at it with a browser.
//   console_server MODE      (operate or read)
// Prints "ready HTTP_ADDRESS" when all is there, searches and backfills slowly, and ends with its standard input.
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/status.h"
#include "client/client.h"
#include "models/encoders/checkpoint_torch.h"
#include "models/encoders/network_torch.h"
#include "models/manifest.h"
#include "server/app/serve.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {
namespace {

constexpr int kSide = 24, kDimension = 16;
constexpr uint64_t kItems = 600;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::cerr << value.status() << "\n";
  std::exit(1);
}

// A disc or a ring, somewhere.
RawInput Drawing(uint64_t number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::uniform_real_distribution<float> place(6, kSide - 6), size(2, 6);
  const float x0 = place(random), y0 = place(random), radius = size(random);
  TensorInput tensor;
  tensor.shape = {1, kSide, kSide};
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float away = std::hypot(static_cast<float>(x) - x0, static_cast<float>(y) - y0);
      const bool inside = number % 2 == 0 ? away < radius : std::abs(away - radius) < 1.2f;
      tensor.values.push_back(inside ? 1.0f : 0.05f);
    }
  }
  return tensor;
}

class Gallery {
 public:
  explicit Gallery(const std::string& mode) {
    ServerConfig config;
    config.listen = config.http_listen = "127.0.0.1:0";
    config.console_mode = mode;
    config.engine.data_folder = folder_ / "data";
    config.engine.store.memory_bytes = 32 << 20;
    config.engine.helper_program = LIGHTCONE_BINARY_DIR "/bin/lightcone-model";
    config.engine.helper_niceness = 0;
    config.engine.live_recall = {.sample_share = 1, .capacity_share_max = 0.5, .queue_max = 256};
    server_ = Must(RunningServer::Start(config));
    client_ = Must(client::Client::Connect({.address = server_->bound().grpc}));
    Create("empty", {});
    Drawings();
    Faces();
    Catalogue();
    Letters();
  }

  const std::string& http() const { return server_->bound().http; }

  void Live() {
    for (uint64_t round = 0; !ending_; ++round) {
      for (int i = 0; i < 5; ++i) Search();
      Search(StrCat("user-", round % 50));
      // However slowly the pages are looked at, there is something of both generations, and something left to do.
      if (round % 10 == 0 && Must(engine().GetBackfill("drawings")).items_left > 200) BackfillSome(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  void End() { ending_ = true; }

 private:
  Engine& engine() { return server_->engine(); }

  void Create(const std::string& name, IndexChange index) {
    CreateCollectionCall call;
    call.name = name;
    call.index = std::move(index);
    Must(engine().CreateCollection(call));
  }
  void Activate(const std::string& collection, uint32_t generation, const std::string& reason) {
    ActivateCall call;
    call.collection = collection;
    call.generation = generation;
    call.reason = reason;
    Must(engine().ActivateGeneration(call));
  }

  // Three generations with encoders, a gallery of two of them, a backfill under way.
  void Drawings() {
    IndexChange index;
    index.hnsw_ef_search = 16;
    Create("drawings", index);
    for (uint32_t generation = 1; generation <= 3; ++generation) {
      EncoderConfig config;
      config.architecture = "mlp";
      config.width = 0.125;
      config.dimension = kDimension;
      config.height = config.width_px = kSide;
      config.channels = 1;
      const auto network = Must(BuildNetwork(config, generation));
      network->eval();
      const std::string path = folder_ / "encoder.pt";
      RegisterCall call;
      Manifest manifest;
      manifest.encoder_crc32c = Must(ExportTorchScript(*network, path));
      manifest.name = StrCat("drawings-", generation);
      manifest.architecture = "mlp";
      manifest.method = generation == 1 ? "independent" : "hbct";
      manifest.dimension = kDimension;
      manifest.clip_radius = 2;
      manifest.input = {kSide, kSide, 1, {0.0f}, {1.0f}};
      manifest.training = {"drawings", "default", 30, 9'000, 24'000, generation, 118.4, 6'080.5, 0.3127, ""};
      call.collection = "drawings";
      call.manifest_json = ToJson(manifest);
      call.encoder = Must(ReadFile(path));
      call.parent = generation - 1;
      Must(engine().RegisterGeneration(call));
      if (generation == 1) {
        Activate("drawings", 1, "first model");
        Draw(0, kItems);
        Must(engine().Rebuild("drawings", {}, true, "", {}));
        for (int i = 0; i < 40; ++i) Search();
      }
    }
    Activate("drawings", 2, "better on rings, probes of 12 May");
    Draw(kItems, kItems + 100);
    StartBackfillCall start;
    start.collection = "drawings";
    Must(engine().StartBackfill(start));
    while (Must(engine().GetBackfill("drawings")).state == BackfillState::kOrdering) std::this_thread::yield();
    BackfillSome(180);
    for (int i = 0; i < 60; ++i) Search();
    SetCanaryCall canary;
    canary.collection = "drawings";
    canary.generation = 3;
    canary.share = 0.25;
    Must(engine().SetCanary(canary));
    for (int i = 0; i < 50; ++i) Search(StrCat("user-", i));
  }
  void Draw(uint64_t begin, uint64_t end) {
    UpsertBatch batch;
    batch.collection = "drawings";
    batch.keep_input = true;
    for (uint64_t i = begin; i < end; ++i) {
      UpsertItem item;
      item.id = ItemId{i};
      item.content = Drawing(i);
      item.payload_json = StrCat("{\"shape\":\"", i % 2 == 0 ? "disc" : "ring", "\"}");
      batch.items.push_back(std::move(item));
    }
    Must(engine().Upsert(std::move(batch), {}));
  }
  void BackfillSome(int64_t items) {
    LeaseCall call;
    call.collection = "drawings";
    call.items_max = items;
    call.timeout = absl::Minutes(10);
    const auto lease = engine().LeaseBackfill(call);
    if (!lease.ok() || lease->items.empty()) return;  // paused, or another generation serves
    UpsertBatch batch;
    batch.collection = "drawings";
    batch.generation = lease->generation;
    batch.same_content = true;
    for (const LeasedItem& leased : lease->items) {
      UpsertItem item;
      item.id = leased.id;
      item.content = Drawing(std::get<uint64_t>(leased.id.value));
      item.expected_sequence = leased.sequence;
      batch.items.push_back(std::move(item));
    }
    Must(engine().Upsert(std::move(batch), {}));
  }

  // Two generations that cannot be compared, and a name that could be markup.
  void Faces() {
    const std::string name = "faces.of-staff_2024";
    Create(name, {});
    for (const int dimension : {8, 12}) {
      RegisterCall call;
      call.collection = name;
      call.manifest_json =
          StrCat("{\"dimension\":", dimension, ",\"curvature\":1,\"clip_radius\":2,\"method\":\"independent\"}");
      call.parent = dimension == 8 ? 0 : 1;
      call.expects_adapter = dimension == 12;
      Must(engine().RegisterGeneration(call));
    }
    Activate(name, 1, "");
    UpsertBatch batch;
    batch.collection = name;
    for (uint64_t i = 0; i < 50; ++i) {
      UpsertItem item;
      item.id = ItemId{StrCat("<b>person</b> ", i)};
      item.content = std::vector<float>(8, 0.01f * static_cast<float>(i + 1));
      batch.items.push_back(std::move(item));
    }
    Must(engine().Upsert(std::move(batch), {}));
  }

  // Two generations that agree, and labelled queries by both: a validation passes.
  void Catalogue() {
    constexpr uint64_t kClasses = 10, kMembers = 40, kProbes = 300;
    Create("catalogue", {});
    for (uint32_t parent = 0; parent < 2; ++parent) {
      RegisterCall call;
      call.collection = "catalogue";
      call.manifest_json = R"({"dimension":8,"curvature":1,"clip_radius":2,"method":"hbct"})";
      call.parent = parent;
      Must(engine().RegisterGeneration(call));
    }
    Activate("catalogue", 1, "");
    std::normal_distribution<float> noise(0, 0.05f);
    const auto near = [&](uint64_t label) {
      std::vector<float> vector(8);
      for (size_t i = 0; i < vector.size(); ++i) vector[i] = ((label >> (i % 4)) & 1 ? 0.6f : -0.6f) + noise(random_);
      return vector;
    };
    UpsertBatch batch;
    batch.collection = "catalogue";
    for (uint64_t i = 0; i < kClasses * kMembers; ++i) {
      UpsertItem item;
      item.id = ItemId{i};
      item.content = near(i % kClasses);
      item.payload_json = StrCat("{\"class\":", i % kClasses, "}");
      batch.items.push_back(std::move(item));
    }
    Must(engine().Upsert(std::move(batch), {}));
    PutProbesCall probes;
    probes.collection = "catalogue";
    probes.name = "shelf";
    probes.label_field = "class";
    for (uint64_t i = 0; i < kProbes; ++i) {
      Probe probe;
      const std::vector<float> vector = near(i % kClasses);
      probe.vectors = {{1, vector}, {2, vector}};
      probe.label = FilterValue(static_cast<int64_t>(i % kClasses));
      probes.probes.push_back(std::move(probe));
    }
    Must(engine().PutProbes(probes));
    ValidateCall validate;
    validate.collection = "catalogue";
    validate.generation = 1;
    const std::string job = Must(engine().ValidateGeneration(validate));
    while (!Must(engine().GetJob(job)).final()) std::this_thread::yield();
  }

  // A draft, trained here.
  void Letters() {
    Create("letters", {});
    StartTrainingCall call;
    call.collection = "letters";
    call.recipe_json =
        R"({"method": "independent", "data": "glyphs", "classes": 4, "name": "letters",
            "options": {"encoder.architecture": "mlp", "encoder.dimension": 8, "epochs": 6}})";
    const std::string job = Must(engine().StartTraining(call));
    while (!Must(engine().GetJob(job)).final()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  void Search(const std::string& canary_key = "") {
    v1::SearchRequest request;
    request.set_collection("drawings");
    request.set_k(10);
    std::normal_distribution<float> normal;
    v1::Vector& vector = *request.add_queries()->mutable_vector();
    for (int i = 0; i < kDimension; ++i) vector.mutable_floats()->add_values(normal(random_));
    request.set_canary_key(canary_key);
    *request.mutable_queries(0)->mutable_canary_vector() = vector;
    Must(client_->Search(request));
  }

  TemporaryFolder folder_;
  std::mt19937 random_{1};
  std::atomic<bool> ending_{false};
  std::unique_ptr<RunningServer> server_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace
}  // namespace lightcone::server

int main(int argc, char** argv) {
  lightcone::server::Gallery gallery(argc > 1 ? argv[1] : "auto");
  std::printf("ready %s\n", gallery.http().c_str());
  std::fflush(stdout);
  std::thread life([&] { gallery.Live(); });
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  gallery.End();
  life.join();
}
