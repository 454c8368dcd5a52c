// One sealed segment a generation over given rows, built by the index itself, for benchmarks that leave the server out.
// Threads: searches from any thread, all else from one.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "index/api/collection_index.h"

namespace lightcone::bench {

class IndexWorld {
 public:
  // Builds the segments in `folder`, which is emptied first: generation 1 has rows[0], and so on. Internal ids count
  // the rows of all from 0.
  static absl::StatusOr<std::unique_ptr<IndexWorld>> Build(const std::string& folder, const Space& space,
                                                           IndexSettings settings,
                                                           const std::vector<std::span<const float>>& rows);
  static absl::StatusOr<std::unique_ptr<IndexWorld>> Build(const std::string& folder, const Space& space,
                                                           const IndexSettings& settings, std::span<const float> rows) {
    return Build(folder, space, settings, std::vector{rows});
  }

  // The segment that Build left in `folder`.
  static absl::StatusOr<std::unique_ptr<IndexWorld>> Open(const std::string& folder, const Space& space,
                                                          const IndexSettings& settings);

  struct Ask {
    int64_t k = 10;
    bool exact = false;
    int ef = 0;
    int nprobe = 0;
  };
  absl::StatusOr<SearchResult> Search(std::span<const float> query, const Ask& ask) const;
  // Every query of `queries`, in one call of the index; the error of one is that of all.
  absl::StatusOr<std::vector<SearchResult>> SearchTogether(std::span<const float> queries, const Ask& ask) const;

  const IndexView& view() const { return *view_; }
  double build_seconds() const { return build_seconds_; }  // of the last segment: codes and graph
  int64_t mapped_bytes() const { return index_->Stats().mapped_bytes; }
  const Space& space() const { return space_; }

 private:
  IndexWorld() = default;
  SearchRequest RequestOf(const Ask& ask, const BoundQuery& query) const;

  Space space_;
  std::unique_ptr<CollectionIndex> index_;
  std::shared_ptr<const IndexView> view_;
  double build_seconds_ = 0;
};

// Seconds in which `threads` threads ask `search(q)` for every q < queries, each its share.
template <typename SearchOne>
double SecondsOfQueries(int64_t queries, int threads, SearchOne search) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (int64_t q = t; q < queries; q += threads) search(q);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace lightcone::bench
