#include "bench/index_world.h"

#include <filesystem>

#include "base/files.h"
#include "base/status.h"

namespace lightcone::bench {

absl::StatusOr<std::unique_ptr<IndexWorld>> IndexWorld::Build(const std::string& folder, const Space& space,
                                                              IndexSettings settings,
                                                              const std::vector<std::span<const float>>& rows) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  const size_t dimension = static_cast<size_t>(space.dimension);
  std::vector<std::pair<uint32_t, Space>> generations;
  for (const std::span<const float> of : rows) {
    generations.emplace_back(static_cast<uint32_t>(generations.size() + 1), space);
    settings.growing_rows_max = std::max(settings.growing_rows_max, static_cast<int64_t>(of.size() / dimension));
  }
  settings.merge_rows_max = std::max(settings.merge_rows_max, settings.growing_rows_max);
  std::unique_ptr<IndexWorld> world(new IndexWorld());
  world->space_ = space;
  LC_ASSIGN_OR_RETURN(world->index_, CollectionIndex::Open(folder, settings, generations, nullptr));
  constexpr size_t kRowsABatch = 1000;
  uint64_t sequence = 0, id = 0;
  for (size_t g = 0; g < rows.size(); ++g) {
    const size_t count = rows[g].size() / dimension;
    for (size_t begin = 0; begin < count; begin += kRowsABatch) {
      std::vector<RowChange> changes(std::min(kRowsABatch, count - begin));
      for (size_t i = 0; i < changes.size(); ++i) {
        changes[i].internal_id = id++;
        changes[i].generation = static_cast<uint32_t>(g + 1);
        changes[i].z = rows[g].subspan((begin + i) * dimension, dimension);
      }
      LC_RETURN_IF_ERROR(world->index_->Apply(++sequence, changes));
    }
    const auto start = std::chrono::steady_clock::now();
    LC_RETURN_IF_ERROR(world->index_->Flush());
    world->build_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  world->view_ = world->index_->View();
  return world;
}

absl::StatusOr<std::unique_ptr<IndexWorld>> IndexWorld::Open(const std::string& folder, const Space& space,
                                                             const IndexSettings& settings) {
  std::unique_ptr<IndexWorld> world(new IndexWorld());
  world->space_ = space;
  LC_ASSIGN_OR_RETURN(world->index_, CollectionIndex::Open(folder, settings, {{1, space}}, nullptr));
  world->view_ = world->index_->View();
  return world;
}

absl::StatusOr<SearchResult> IndexWorld::Search(std::span<const float> query, const Ask& ask) const {
  LC_ASSIGN_OR_RETURN(const BoundQuery bound, BoundQuery::Make(space_, space_, query));
  return view_->Search(RequestOf(ask, bound));
}

absl::StatusOr<std::vector<SearchResult>> IndexWorld::SearchTogether(std::span<const float> queries,
                                                                     const Ask& ask) const {
  const size_t dimension = static_cast<size_t>(space_.dimension);
  std::vector<BoundQuery> bound;
  for (size_t begin = 0; begin < queries.size(); begin += dimension) {
    LC_ASSIGN_OR_RETURN(BoundQuery one, BoundQuery::Make(space_, space_, queries.subspan(begin, dimension)));
    bound.push_back(std::move(one));
  }
  std::vector<SearchRequest> requests;
  for (const BoundQuery& query : bound) requests.push_back(RequestOf(ask, query));
  std::vector<SearchResult> results;
  for (absl::StatusOr<SearchResult>& result : view_->SearchTogether(requests)) {
    LC_RETURN_IF_ERROR(result.status());
    results.push_back(*std::move(result));
  }
  return results;
}

SearchRequest IndexWorld::RequestOf(const Ask& ask, const BoundQuery& query) const {
  SearchRequest request;
  request.query = &query;
  request.generation = request.view_generation = 1;
  request.k = ask.k;
  request.exact = ask.exact;
  request.ef = ask.ef;
  request.nprobe = ask.nprobe;
  return request;
}

}  // namespace lightcone::bench
