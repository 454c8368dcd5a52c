// What the items of a rollout hold: content from which vector, input and payload follow for every generation, and what
// the server has acknowledged beyond the content itself.
// Threads: every method is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "tests/system/oracle.h"

namespace lightcone {

inline constexpr char kRollout[] = "rollout";  // the collection
inline constexpr int kClasses = 5;             // payload field "class" of item i: "c" and i % kClasses

inline constexpr uint64_t kItemsOfAWriter = 60;

// The items of every other writer keep their raw input, which the server embeds, beside the workers.
inline bool KeepsInput(uint64_t item) { return item / kItemsOfAWriter % 2 == 1; }

// The newest generation at or below `view` that embedded an item; 0: none. `generations` ascend.
uint32_t ServedBy(std::span<const uint32_t> generations, uint32_t view);

// Three small encoders, of which generation g has number g % 3, and the embeddings of all content by all generations.
class Content {
 public:
  explicit Content(const std::string& folder);
  ~Content();

  v1::RegisterRequest RegistrationOf(uint32_t generation) const;
  v1::RawInput InputOf(uint64_t item, Version version) const;
  std::string PayloadOf(uint64_t item, Version version) const;
  // Before the clip. Of items with inputs: as the encoder makes it here, alone in its batch.
  std::vector<float> VectorOf(uint64_t item, Version version, uint32_t generation) const;
  bool Matches(std::span<const float> vector, uint64_t item, Version version, uint32_t generation) const;
  // A batch of new content by `generation`. REQUIRES: the items are of one writer.
  v1::UpsertRequest UpsertOf(const std::set<uint64_t>& items, Version version, uint32_t generation) const;

 private:
  struct Encoder;
  std::vector<std::unique_ptr<Encoder>> encoders_;
  mutable absl::Mutex mu_;
  mutable std::map<std::tuple<uint64_t, Version, uint32_t>, std::vector<float>> embedded_ ABSL_GUARDED_BY(mu_);
};

// By whom the newest content of each item is embedded at least.
class EmbeddingOracle {
 public:
  void Acknowledge(uint64_t item, Version version, uint32_t generation) {
    absl::MutexLock lock(&mu_);
    auto& [newest, generations] = embedded_[item];
    if (version < newest) return;  // content that was replaced meanwhile
    if (version > newest) generations.clear();
    newest = version;
    generations.insert(generation);
  }
  // Empty for content that nobody was told of.
  std::set<uint32_t> Of(uint64_t item, Version version) const {
    absl::MutexLock lock(&mu_);
    const auto found = embedded_.find(item);
    return found == embedded_.end() || found->second.first != version ? std::set<uint32_t>() : found->second.second;
  }

 private:
  mutable absl::Mutex mu_;
  std::map<uint64_t, std::pair<Version, std::set<uint32_t>>> embedded_ ABSL_GUARDED_BY(mu_);
};

// For each item the number of the last acknowledged call that wrote or deleted it: what a search that begins now finds
// of the item is at least as new.
class Floors {
 public:
  explicit Floors(size_t items) : floors_(items) {}
  void Raise(uint64_t item, Version call) { floors_[item] = call; }  // by the item's writer
  std::vector<Version> Now() const { return {floors_.begin(), floors_.end()}; }

 private:
  std::vector<std::atomic<Version>> floors_;
};

}  // namespace lightcone
