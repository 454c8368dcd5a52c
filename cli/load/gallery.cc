#include "cli/load/gallery.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "base/files.h"
#include "base/status.h"
#include "cli/gallery_calls.h"
#include "client/upsert_stream.h"

namespace lightcone::cli {
namespace {

constexpr int64_t kItemsABatch = 1000;
constexpr int64_t kQueriesACall = 64;
constexpr double kSameDistance = 1e-9;  // relative; ties count

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

absl::Status CheckGoing(const std::atomic<bool>* stop) {
  if (stop != nullptr && stop->load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

absl::Status Create(client::Client& client, const std::string& collection, const std::string& metric, int dimension) {
  LC_RETURN_IF_ERROR(CreateGallery(client, collection, metric, 1.0));
  v1::RegisterRequest add;
  add.set_collection(collection);
  const char* const lorentz = metric == "lorentz" ? ", \"curvature\": 1.0, \"clip_radius\": 1.2" : "";
  add.set_manifest_json(StrCat("{\"dimension\": ", dimension, lorentz, "}"));
  LC_ASSIGN_OR_RETURN(const v1::RegisterResponse added, client.RegisterGeneration(add));
  return ActivateModel(client, collection, added.generation().generation());
}

absl::Status Write(client::Client& client, const std::string& collection, const LoadVectors& vectors,
                   const std::atomic<bool>* stop) {
  absl::Status refused;
  client::UpsertStreamOptions options;
  options.on_acknowledge = [&refused](uint64_t, const absl::StatusOr<v1::UpsertResponse>& outcome) {
    if (!outcome.ok() && refused.ok()) refused = outcome.status();
  };
  const auto stream = client.OpenUpsertStream(options);
  for (int64_t begin = 0; begin < vectors.item_count(); begin += kItemsABatch) {
    LC_RETURN_IF_ERROR(CheckGoing(stop));
    v1::UpsertRequest batch;
    batch.set_collection(collection);
    batch.set_durability(v1::DURABILITY_PROCESS);  // a benchmark's items can be written again
    for (int64_t i = begin; i < std::min(begin + kItemsABatch, vectors.item_count()); ++i) {
      v1::Item* item = batch.add_items();
      item->mutable_id()->set_number(static_cast<uint64_t>(i));
      client::SetVector(vectors.item(i).data(), vectors.dimension, item->mutable_vector());
    }
    LC_RETURN_IF_ERROR(stream->Send(std::move(batch), static_cast<uint64_t>(begin)));
  }
  LC_RETURN_IF_ERROR(stream->Finish());
  return refused;
}

// Asks the first `queries` queries, several a call, and gives each answer to `use`.
absl::Status AskEach(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors, int64_t queries,
                     const std::function<void(int64_t query, const v1::QueryResult&)>& use) {
  for (int64_t begin = 0; begin < queries; begin += kQueriesACall) {
    LC_RETURN_IF_ERROR(CheckGoing(plan.stop));
    const int64_t count = std::min(kQueriesACall, queries - begin);
    LC_ASSIGN_OR_RETURN(const v1::SearchResponse response,
                        client.Search(SearchOf(plan, vectors, begin, count), {.timeout = absl::Minutes(5)}));
    if (response.partial() || response.results_size() != count) return Internal("a search gave a partial answer");
    for (int64_t i = 0; i < count; ++i) {
      const v1::QueryResult& result = response.results(static_cast<int>(i));
      if (result.has_error()) return client::StatusOf(result.error());
      use(begin + i, result);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GalleryTimes> FillGallery(client::Client& client, const std::string& collection,
                                         const std::string& metric, const LoadVectors& vectors,
                                         const std::atomic<bool>* stop) {
  LC_RETURN_IF_ERROR(Create(client, collection, metric, vectors.dimension));
  GalleryTimes times;
  auto start = std::chrono::steady_clock::now();
  LC_RETURN_IF_ERROR(Annotate(Write(client, collection, vectors, stop), "fill the collection"));
  times.fill_s = SecondsSince(start);
  start = std::chrono::steady_clock::now();
  v1::RebuildRequest rebuild;
  rebuild.set_collection(collection);
  rebuild.set_wait(true);
  LC_RETURN_IF_ERROR(client.RebuildCollection(rebuild, {.timeout = absl::Hours(2)}).status());
  times.seal_s = SecondsSince(start);
  return times;
}

absl::StatusOr<GroundTruth> AskExactly(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors,
                                       int64_t queries) {
  LoadPlan exactly = plan;
  exactly.exact = true;
  GroundTruth truth;
  LC_RETURN_IF_ERROR(AskEach(client, exactly, vectors, std::min(queries, vectors.query_count()),
                             [&truth](int64_t, const v1::QueryResult& result) {
                               const int hits = result.hits_size();
                               truth.hits.push_back(hits);
                               truth.kth_distance.push_back(hits == 0 ? 0 : -result.hits(hits - 1).score());
                             }));
  return truth;
}

absl::StatusOr<GroundTruth> ReadTruth(const std::string& path, uint32_t k, int64_t queries) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  GroundTruth truth;
  for (size_t at = 0; at < bytes.size() && truth.queries() < queries;) {
    int32_t count = 0;
    if (bytes.size() - at >= 4) std::memcpy(&count, bytes.data() + at, 4);
    if (count < 1 || (bytes.size() - at - 4) / 4 < static_cast<size_t>(count)) {
      return DataLoss(StrCat("'", path, "' is no ivecs file, or cut off: row ", truth.ids.size()));
    }
    if (static_cast<uint32_t>(count) < k) {
      return InvalidField("--truth", StrCat(path, " row ", truth.ids.size(), " of ", count, " ids"),
                          StrCat(k, " or more (--k)"));
    }
    std::vector<uint64_t>& ids = truth.ids.emplace_back();
    for (uint32_t i = 0; i < k; ++i) {
      int32_t id = 0;
      std::memcpy(&id, bytes.data() + at + 4 + 4 * size_t{i}, 4);
      ids.push_back(static_cast<uint64_t>(id));
    }
    at += 4 + 4 * static_cast<size_t>(count);
  }
  if (truth.ids.empty()) return InvalidField("--truth", path, "an ivecs file with at least one row");
  return truth;
}

absl::StatusOr<double> MeasureRecall(client::Client& client, const LoadPlan& plan, const LoadVectors& vectors,
                                     const GroundTruth& truth) {
  int64_t wanted = 0, found = 0;
  LC_RETURN_IF_ERROR(AskEach(client, plan, vectors, std::min(truth.queries(), vectors.query_count()),
                             [&](int64_t query, const v1::QueryResult& result) {
                               const size_t q = static_cast<size_t>(query);
                               if (!truth.ids.empty()) {
                                 const std::set<uint64_t> right(truth.ids[q].begin(), truth.ids[q].end());
                                 wanted += static_cast<int64_t>(right.size());
                                 for (const v1::Hit& hit : result.hits())
                                   found += hit.id().has_number() && right.contains(hit.id().number());
                                 return;
                               }
                               wanted += truth.hits[q];
                               const double most =
                                   truth.kth_distance[q] + kSameDistance * std::abs(truth.kth_distance[q]);
                               int64_t near = 0;
                               for (const v1::Hit& hit : result.hits()) near += -hit.score() <= most;
                               found += std::min(near, truth.hits[q]);
                             }));
  return wanted == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(wanted);
}

}  // namespace lightcone::cli
