// A real engine over a temporary folder with a few items, for fuzzers of what stands before it. It has no helper
// program, no hosts that it may call, and no folder that callers may name. After so many calls it closes, opens what
// the callers left, and begins anew in another folder. Threads: one.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/engine/api/engine.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server {

class SmallEngine {
 public:
  static constexpr int kDimension = 4;
  static constexpr uint64_t kItems = 8;

  SmallEngine() { Begin(); }

  Engine& engine() { return *engine_; }
  const std::string& folder() const { return folder_->path(); }

  // Ends the program where the engine does not open again over what callers wrote.
  void Renew() {
    engine_.reset();
    Must(Open());
    engine_.reset();
    Begin();
  }

 private:
  static void Must(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::abort();
  }
  template <typename Answer>
  static void Must(const absl::StatusOr<Answer>& answer) {
    Must(answer.status());
  }

  absl::Status Open() {
    EngineOptions options;
    options.data_folder = folder_->path() + "/data";
    options.store.memory_bytes = 32 << 20;
    options.store.reserve_bytes = 0;
    options.search_threads = 1;
    options.live_recall.sample_share = 0;
    options.limits.collections_max = 16;
    options.limits.generations_max = 16;
    options.limits.encoder_bytes_max = 1 << 20;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
    if (!engine.ok()) return engine.status();
    engine_ = *std::move(engine);
    return engine_->snapshots().Start({});
  }

  // Collection "c" with two generations and an index of the field "kind".
  void Begin() {
    folder_.emplace();
    std::filesystem::create_directory(folder_->path() + "/data");
    std::filesystem::permissions(folder_->path() + "/data", std::filesystem::perms::owner_all);
    Must(Open());
    CreateCollectionCall create;
    create.name = "c";
    create.payload_fields = {{"kind", PayloadType::kKeyword}};
    Must(engine_->CreateCollection(create));
    for (uint32_t parent = 0; parent < 2; ++parent) {
      RegisterCall call;
      call.collection = "c";
      call.manifest_json = StrCat(R"({"dimension":)", kDimension, R"(,"curvature":1.0,"clip_radius":2.0})");
      call.parent = parent;
      Must(engine_->RegisterGeneration(call));
    }
    ActivateCall activate;
    activate.collection = "c";
    activate.generation = 1;
    Must(engine_->ActivateGeneration(activate));
    UpsertBatch batch;
    batch.collection = "c";
    batch.generation = 1;
    for (uint64_t id = 1; id <= kItems; ++id) {
      UpsertItem& item = batch.items.emplace_back();
      item.id = ItemId{id};
      item.content = std::vector<float>{0.1F * static_cast<float>(id), 0.2F, 0.3F, 0.0F};
      item.payload_json = StrCat(R"({"kind":"k)", id % 3, R"(","rank":)", id, "}");
    }
    Must(engine_->Upsert(std::move(batch), {}));
  }

  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<Engine> engine_;  // goes before its folder
};

}  // namespace lightcone::server
