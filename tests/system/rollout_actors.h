// Those who use a collection while its generations change: writers, workers that embed what they lease, and searchers
// that look at every answer. Each runs until its server dies, and again with the next one.
// Threads: one for each; what they share is safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/client.h"
#include "nlohmann/json.hpp"
#include "tests/system/rollout_content.h"
#include "tests/system/rollout_meter.h"
#include "tests/system/writer.h"

namespace lightcone {

struct RolloutWorld {
  RolloutWorld(const std::string& folder, size_t items) : content(folder), floors(items) {}

  const Content content;
  Meter meter;
  EmbeddingOracle embedded;
  Floors floors;
  std::atomic<uint32_t> serving{0};  // the generation that serves, as far as its operator knows
  std::atomic<uint32_t> newest{0};   // that is registered
};

inline Version VersionIn(const std::string& payload_json) {
  return nlohmann::json::parse(payload_json)["version"].get<Version>();
}

// Refused for good because its generation was retired between the choice and the call.
inline bool SaysRetired(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && status.message().find("retire") != std::string_view::npos;
}

// New content by the generation that serves.
class RolloutWriter final : public Writer {
 public:
  RolloutWriter(int number, RolloutWorld* world)
      : Writer(number, {.items = kItemsOfAWriter, .batch_items_max = 6, .upserts_percent = 85}), world_(world) {}

 private:
  absl::Status Upsert(client::Client& client, const std::set<uint64_t>& items, Version version) override {
    generation_ = world_->serving;
    const auto answer = client.Upsert(world_->content.UpsertOf(items, version, generation_));
    return answer.status();
  }
  absl::Status Delete(client::Client& client, const std::set<uint64_t>& items) override {
    generation_ = 0;
    v1::DeleteRequest request;
    request.set_collection(kRollout);
    for (const uint64_t item : items) request.add_ids()->set_number(item);
    return client.Delete(request).status();
  }
  bool Refused(const absl::Status& status) const override { return SaysRetired(status); }
  void Acknowledged(const std::set<uint64_t>& items, Version call) override {
    for (const uint64_t item : items) {
      world_->floors.Raise(item, call);
      if (generation_ != 0) world_->embedded.Acknowledge(item, call, generation_);
    }
    world_->meter.Acknowledged();
  }

  RolloutWorld* const world_;
  uint32_t generation_ = 0;  // of the call; 0: a delete
};

// Leases items, reads what they hold, and writes what its generation makes of that. What a kill cuts off it sends again
// to the next server, whose leases know nothing of it.
class LeaseWorker {
 public:
  LeaseWorker(uint64_t seed, RolloutWorld* world) : random_(seed), world_(world) {}

  void Run(const std::string& address) {
    const auto client = ClientAt(address);
    while (!held_ || Write(*client)) {
      if (!Lease(*client)) return;
      if (held_ && random_() % 16 == 0 && !world_->meter.GoOn(5)) return;  // slow: what it holds may be outdated
    }
  }

  int64_t embedded() const { return embedded_; }
  int64_t outdated() const { return outdated_; }

 private:
  struct Held {
    v1::UpsertRequest request;
    std::vector<Version> versions;
  };

  // False when the server is gone.
  bool Lease(client::Client& client) {
    v1::LeaseRequest request;
    request.set_collection(kRollout);
    request.set_items_max(static_cast<uint32_t>(1 + random_() % 16));
    request.mutable_timeout()->set_seconds(1);
    request.set_finished_token(token_);
    const auto lease = client.LeaseBackfill(request);
    // Before the first start.
    if (absl::IsFailedPrecondition(lease.status())) return world_->meter.GoOn(5);
    if (!Alive(lease.status())) return false;
    token_ = lease->token();
    if (!Embed(client, *lease)) return false;
    return held_ || world_->meter.GoOn(2);
  }

  bool Embed(client::Client& client, const v1::LeaseResponse& lease) {
    v1::GetRequest get;
    get.set_collection(kRollout);
    std::map<uint64_t, uint64_t> sequences;
    const bool leaves_inputs = random_() % 2 == 0;  // to the server, which embeds them, too
    for (const v1::LeasedItem& item : lease.items()) {
      if (item.has_input() && leaves_inputs) continue;
      get.add_ids()->set_number(item.id().number());
      sequences[item.id().number()] = item.sequence();
    }
    if (sequences.empty()) return true;
    const auto got = client.Get(get);
    if (!Alive(got.status())) return false;
    Held held;
    held.request.set_collection(kRollout);
    held.request.set_generation(lease.generation());
    held.request.set_same_content(true);
    for (const v1::StoredItem& item : got->items()) {
      const uint64_t number = item.id().number();
      held.versions.push_back(VersionIn(item.payload_json()));
      v1::Item* const added = held.request.add_items();
      added->mutable_id()->set_number(number);
      added->set_expected_sequence(sequences[number]);
      const auto vector = world_->content.VectorOf(number, held.versions.back(), lease.generation());
      client::SetVector(vector.data(), kDimension, added->mutable_vector());
    }
    if (!held.versions.empty()) held_ = std::move(held);
    return true;
  }

  bool Write(client::Client& client) {
    const auto answer = client.Upsert(held_->request);
    if (SaysRetired(answer.status())) {
      held_.reset();
      return true;
    }
    if (!Alive(answer.status())) return false;
    const std::set<int> outdated(answer->outdated().begin(), answer->outdated().end());
    for (int i = 0; i < held_->request.items_size(); ++i) {
      if (outdated.contains(i)) continue;
      world_->embedded.Acknowledge(held_->request.items(i).id().number(), held_->versions[static_cast<size_t>(i)],
                                   held_->request.generation());
      ++embedded_;
    }
    outdated_ += static_cast<int64_t>(outdated.size());
    held_.reset();
    return true;
  }

  bool Alive(const absl::Status& status) const {
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    return status.ok();
  }

  std::mt19937_64 random_;
  RolloutWorld* const world_;
  std::string token_;
  std::optional<Held> held_;
  int64_t embedded_ = 0, outdated_ = 0;
};

// Asks for all items by every generation's view and holds each answer against what was acknowledged before.
class Searcher {
 public:
  Searcher(uint64_t seed, size_t items, RolloutWorld* world) : random_(seed), items_(items), world_(world) {}

  void Run(const std::string& address) {
    const auto client = ClientAt(address);
    while (world_->meter.GoOn(4) && Search(*client)) {
    }
  }

  int64_t answers() const { return answers_; }

 private:
  bool Search(client::Client& client) {
    const uint32_t newest = world_->newest;
    v1::SearchRequest request;
    request.set_collection(kRollout);
    if (random_() % 2 == 0) request.set_generation(newest - static_cast<uint32_t>(random_() % std::min(newest, 4u)));
    request.set_k(static_cast<uint32_t>(2 * items_));
    request.set_exact(random_() % 2 == 0);
    request.set_with_payload(true);
    request.set_with_vector(true);
    const std::vector<float> vector = VectorOf(random_(), 1);
    client::SetVector(vector.data(), kDimension, request.add_queries()->mutable_vector());
    const std::vector<Version> floors = world_->floors.Now();
    const auto answer = client.Search(request);
    if (absl::IsUnavailable(answer.status())) return false;
    if (absl::IsFailedPrecondition(answer.status())) {
      EXPECT_TRUE(SaysRetired(answer.status()) || answer.status().message().find("out of reach") != std::string::npos)
          << answer.status();
      return true;
    }
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return false;
    EXPECT_TRUE(!answer->results(0).has_error()) << answer->results(0).error().message();
    Check(*answer, floors);
    ++answers_;
    return true;
  }

  void Check(const v1::SearchResponse& answer, const std::vector<Version>& floors) {
    std::set<uint64_t> seen;
    for (const v1::Hit& hit : answer.results(0).hits()) {
      const uint64_t item = hit.id().number();
      const std::string what = StrCat("item ", item, " by generation ", hit.generation(), " in a view of ",
                                      answer.serving_generation(), ", ", hit.payload_json());
      EXPECT_TRUE(seen.insert(item).second) << what << " is there twice";
      EXPECT_LE(hit.generation(), answer.serving_generation()) << what;
      const Version version = VersionIn(hit.payload_json());
      EXPECT_GE(version, floors[item]) << what << " is older than what was acknowledged before";
      // Replaced or retired since the view was pinned: the hit stands without its vector.
      const std::vector<float> vector = client::VectorOf(hit.vector()).value_or(std::vector<float>());
      if (vector.empty()) continue;
      EXPECT_TRUE(world_->content.Matches(vector, item, version, hit.generation())) << what << " has another vector";
    }
  }

  std::mt19937_64 random_;
  const size_t items_;
  RolloutWorld* const world_;
  int64_t answers_ = 0;
};

}  // namespace lightcone
