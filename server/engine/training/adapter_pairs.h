// What an adapter is fitted from: items of one content that two generations embedded, drawn over the whole gallery.
// Threads: reentrant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mix.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/collection.h"
#include "server/engine/embed/embed_frames.h"

namespace lightcone::server {

// A draw without replacement from a stream of unknown length, the same for the same numbers and seed: it keeps those
// whose mixed numbers are least. Numbers that follow one another have nothing to do with one another in it.
template <typename T>
class Draw {
 public:
  Draw(int64_t count, uint64_t seed) : count_(static_cast<size_t>(count)), seed_(seed) {}

  // `make` is called only if the one of this number is among those drawn so far.
  template <typename Make>
  void Offer(uint64_t number, const Make& make) {
    const uint64_t place = Mixed(number ^ Mixed(seed_));
    if (count_ == 0 || (kept_.size() == count_ && place >= kept_.front().first)) return;
    kept_.emplace_back(place, make());
    std::push_heap(kept_.begin(), kept_.end(), Less);
    if (kept_.size() <= count_) return;
    std::pop_heap(kept_.begin(), kept_.end(), Less);
    kept_.pop_back();
  }

  size_t size() const { return kept_.size(); }

  // In the order of the draw: the first n of them are a draw of n.
  std::vector<T> Take() {
    std::sort(kept_.begin(), kept_.end(), Less);
    std::vector<T> taken;
    for (auto& [place, one] : kept_) taken.push_back(std::move(one));
    kept_.clear();
    return taken;
  }

 private:
  using Entry = std::pair<uint64_t, T>;
  static bool Less(const Entry& x, const Entry& y) { return x.first < y.first; }
  const size_t count_;
  const uint64_t seed_;
  std::vector<Entry> kept_;  // max-heap by place
};

struct PairsWanted {
  uint32_t older = 0, newer = 0;
  int64_t pairs_max = 0;
  int64_t embed_max = 0;    // items to embed where there are fewer pairs
  std::string label_field;  // empty: no labels
  uint64_t seed = 1;
};

// Row i of all belongs to one item.
struct AdapterPairs {
  std::vector<float> older, newer;  // vectors before the clip, row major
  std::vector<int64_t> labels;      // classes from 0, by the order they came in; empty: none asked for
  std::vector<int64_t> items;       // ItemInFit
  int64_t count = 0;
  int64_t embedded = 0;     // pairs that the caller's encoder embedded
  int64_t kept = 0;         // embeddings of these that items keep
  int64_t undecodable = 0;  // inputs that it could not embed
  int64_t unlabelled = 0;   // items left out, for they have no label
};

// An embedding by the newer generation that was made for a pair.
struct EmbeddedItem {
  ItemId id;
  uint64_t sequence = 0;  // of the item when it was read
  std::vector<float> vector;
};

struct PairsRun {
  std::function<bool()> cancelled;
  std::function<void(uint64_t done, uint64_t total, std::string_view step)> report;
  // Vectors of the newer generation for some inputs, or each one's error; empty: it has no encoder.
  std::function<absl::StatusOr<EmbeddedInputs>(const std::vector<std::string>& inputs)> embed;
  // Stores what `embed` made, where the items are still the same; returns how many are stored. Needed with `embed`.
  std::function<absl::StatusOr<int64_t>(std::vector<EmbeddedItem> items)> keep = {};
};

// CANCELLED; DATA_LOSS for a damaged record; errors of the store and of `embed`.
absl::StatusOr<AdapterPairs> GatherPairs(const Collection& collection, const PairsWanted& wanted, const PairsRun& run);

}  // namespace lightcone::server
