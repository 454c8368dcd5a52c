// What the index tests share: a temporary folder, and an oracle that remembers every write, answers searches by brute
// force in double precision, and serves as the store from which an index rebuilds and replays.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "gtest/gtest.h"
#include "index/api/collection_index.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {

struct OracleRow {
  std::vector<float> z;
  float uncertainty = 0;
};

// One writer. As a RowSource it is safe from any thread.
class Oracle : public RowSource {
 public:
  struct Change {
    RowChange::Kind kind = RowChange::Kind::kAdd;
    uint64_t internal_id = 0;
    uint32_t generation = 0;
    OracleRow row;
  };
  using Batch = std::vector<Change>;

  static Change Add(uint64_t id, uint32_t generation, std::vector<float> z, float uncertainty = 0.5f) {
    return {RowChange::Kind::kAdd, id, generation, {std::move(z), uncertainty}};
  }
  static Change Delete(uint64_t id) { return {RowChange::Kind::kDelete, id, 0, {}}; }

  // Logs a batch under the next sequence, changes the truth, and hands it to `index` (when there is one).
  absl::Status Write(CollectionIndex* index, Batch batch) {
    log_.push_back(std::move(batch));
    supersedes_.push_back({});
    {
      absl::MutexLock lock(&mu_);
      for (const Change& change : log_.back()) {
        std::vector<uint32_t> superseded;
        if (change.kind == RowChange::Kind::kDelete) {
          items_.erase(change.internal_id);
        } else {
          auto& rows = items_[change.internal_id];
          for (const auto& [generation, row] : rows) {
            if (generation < change.generation) superseded.push_back(generation);
          }
          rows[change.generation] = change.row;
        }
        supersedes_.back().push_back(superseded);
      }
    }
    return index == nullptr ? absl::OkStatus() : ApplyLogged(*index, log_.size());
  }

  // What an engine does after a start. `wanted_only`: without vectors that the index has in files.
  absl::Status Replay(CollectionIndex& index, bool wanted_only = false) const {
    for (uint64_t sequence = index.replay_after() + 1; sequence <= log_.size(); ++sequence) {
      LC_RETURN_IF_ERROR(ApplyLogged(index, sequence, wanted_only));
    }
    return absl::OkStatus();
  }

  void DropGeneration(uint32_t generation) {
    absl::MutexLock lock(&mu_);
    for (auto& [id, rows] : items_) rows.erase(generation);
    std::erase_if(items_, [](const auto& item) { return item.second.empty(); });
  }

  std::vector<SearchHit> BruteForce(const BoundQuery& query, uint32_t generation, uint32_t view_generation, int64_t k,
                                    const std::function<bool(uint64_t, float)>& keep = {}) const {
    std::vector<SearchHit> hits;
    for (const auto& [id, rows] : items_) {
      const auto row = rows.find(generation);
      if (row == rows.end() || !Visible(rows, generation, view_generation)) continue;
      if (keep && !keep(id, row->second.uncertainty)) continue;
      hits.push_back({id, query.Distance(row->second.z), row->second.uncertainty});
    }
    std::sort(hits.begin(), hits.end(), [](const SearchHit& x, const SearchHit& y) {
      return x.distance != y.distance ? x.distance < y.distance : x.internal_id < y.internal_id;
    });
    if (static_cast<int64_t>(hits.size()) > k) hits.resize(static_cast<size_t>(k));
    return hits;
  }

  int64_t VisibleRows(uint32_t generation, uint32_t view_generation) const {
    int64_t n = 0;
    for (const auto& [id, rows] : items_) n += rows.contains(generation) && Visible(rows, generation, view_generation);
    return n;
  }

  const std::map<uint64_t, std::map<uint32_t, OracleRow>>& items() const { return items_; }
  uint64_t sequence() const { return log_.size(); }

  absl::Status ForEachEmbedding(
      uint32_t generation, const std::function<absl::Status(uint64_t, std::span<const float>, float)>& row) override {
    ++scans;
    if (generation == unreadable) return MakeStatus(absl::StatusCode::kUnavailable, "the store cannot be read");
    std::vector<std::pair<uint64_t, OracleRow>> snapshot;
    {
      absl::MutexLock lock(&mu_);
      for (const auto& [id, rows] : items_) {
        const auto it = rows.find(generation);
        if (it != rows.end()) snapshot.emplace_back(id, it->second);
      }
    }
    for (const auto& [id, one] : snapshot) {
      if (before_row) before_row();
      LC_RETURN_IF_ERROR(row(id, one.z, one.uncertainty));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<uint32_t>> GenerationsOf(uint64_t internal_id) override {
    std::vector<uint32_t> generations;
    const auto it = items_.find(internal_id);
    if (it != items_.end()) {
      for (const auto& [generation, row] : it->second) generations.push_back(generation);
    }
    return generations;
  }

  std::atomic<int> scans = 0;
  std::atomic<uint32_t> unreadable = 0;  // generation of which ForEachEmbedding fails
  std::function<void()> before_row;      // called by ForEachEmbedding; set it while nobody can call that

 private:
  static bool Visible(const std::map<uint32_t, OracleRow>& rows, uint32_t generation, uint32_t view_generation) {
    const auto newer = rows.upper_bound(generation);
    return newer == rows.end() || newer->first > view_generation;
  }

  absl::Status ApplyLogged(CollectionIndex& index, uint64_t sequence, bool wanted_only = false) const {
    std::vector<RowChange> changes;
    const Batch& batch = log_[sequence - 1];
    for (size_t i = 0; i < batch.size(); ++i) {
      changes.push_back({batch[i].kind, batch[i].internal_id, batch[i].generation, supersedes_[sequence - 1][i],
                         batch[i].row.z, batch[i].row.uncertainty});
      if (wanted_only && !index.WantsRows(batch[i].generation, sequence)) changes.back().z = {};
    }
    return index.Apply(sequence, changes);
  }

  std::vector<Batch> log_;
  std::vector<std::vector<std::vector<uint32_t>>> supersedes_;
  absl::Mutex mu_;  // of items_, which only the writer changes: its own reads need none
  std::map<uint64_t, std::map<uint32_t, OracleRow>> items_;
};

inline void ExpectSameHits(const std::vector<SearchHit>& got, const std::vector<SearchHit>& expected,
                           const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].internal_id, expected[i].internal_id) << what << ", rank " << i;
    ASSERT_EQ(got[i].distance, expected[i].distance) << what << ", rank " << i;
    ASSERT_EQ(got[i].uncertainty, expected[i].uncertainty) << what << ", rank " << i;
  }
}

inline BoundQuery Bind(const Space& space, const std::vector<float>& z) {
  auto query = BoundQuery::Make(space, space, z);
  EXPECT_TRUE(query.ok()) << query.status();
  return std::move(*query);
}

// Compares exact searches of every generation under every view with the oracle.
inline void ExpectIndexEquals(const Oracle& oracle, const CollectionIndex& index,
                              const std::vector<std::pair<uint32_t, Space>>& generations, const std::vector<float>& z,
                              const std::string& what) {
  const std::shared_ptr<const IndexView> view = index.View();
  for (const auto& [generation, space] : generations) {
    const BoundQuery query = Bind(space, z);
    for (const auto& [view_generation, unused] : generations) {
      SearchRequest request;
      request.query = &query;
      request.generation = generation;
      request.view_generation = view_generation;
      request.k = 100'000;
      request.exact = true;
      const auto result = view->Search(request);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      ExpectSameHits(result->hits, oracle.BruteForce(query, generation, view_generation, request.k),
                     StrCat(what, ": generation ", generation, ", view ", view_generation));
      ASSERT_EQ(view->VisibleRows(generation, view_generation), oracle.VisibleRows(generation, view_generation))
          << what;
    }
  }
}

}  // namespace lightcone
