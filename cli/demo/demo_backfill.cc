#include "cli/demo/demo_backfill.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "base/status.h"
#include "cli/served/served_backfill.h"

namespace lightcone::cli {
namespace {

constexpr double kShares[] = {0, 0.1, 0.25, 0.5, 0.75, 1};
constexpr int kSwitches = 20;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Searches by `generation` (0: whichever is active), one query after the other, until `stop`.
absl::Status SearchOn(client::Client& client, const GalleryQueries& queries, uint32_t generation,
                      const std::atomic<bool>& stop, std::atomic<int64_t>* answered) {
  for (size_t i = 0; !stop; i = (i + 1) % queries.queries.size()) {
    v1::SearchRequest request;
    request.set_collection(queries.collection);
    request.set_generation(generation);
    request.set_k(10);
    client::SetVector(queries.z.data() + queries.queries[i] * queries.dimension, queries.dimension,
                      request.add_queries()->mutable_vector());
    LC_ASSIGN_OR_RETURN(const v1::SearchResponse response, client.Search(request));
    if (response.results_size() != 1) return Internal("search answered no result");
    if (response.results(0).has_error()) return client::StatusOf(response.results(0).error());
    ++*answered;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<BackfillPoint>> EmbedByShares(
    client::Client& client, const GalleryRows& vectors, std::span<const v1::LeasedItem> items,
    const std::function<absl::StatusOr<BackfillPoint>()>& measure) {
  std::vector<BackfillPoint> curve;
  size_t done = 0;
  for (const double share : kShares) {
    const size_t end = static_cast<size_t>(std::llround(share * static_cast<double>(items.size())));
    LC_RETURN_IF_ERROR(EmbedLeased(client, vectors.collection, vectors.generation, items.subspan(done, end - done),
                                   vectors.z, vectors.dimension));
    done = end;
    LC_ASSIGN_OR_RETURN(BackfillPoint point, measure());
    point.share = share;
    curve.push_back(point);
  }
  return curve;
}

absl::StatusOr<std::vector<BackfillPoint>> MeasureBackfill(client::Client& client, const GalleryQueries& queries,
                                                           std::span<const v1::LeasedItem> items,
                                                           std::span<const int32_t> labels) {
  const GalleryRows vectors = {.collection = queries.collection,
                               .generation = queries.generation,
                               .z = queries.z,
                               .dimension = queries.dimension};
  return EmbedByShares(client, vectors, items, [&]() -> absl::StatusOr<BackfillPoint> {
    LC_ASSIGN_OR_RETURN(const DemoRow row, MeasureThroughSearch(client, queries, labels));
    return BackfillPoint{.share = 0, .cmc1 = row.cmc1, .map = row.map};
  });
}

absl::StatusOr<SwitchTimes> MeasureSwitches(client::Client& client, const std::string& address,
                                            const GalleryQueries& queries, const SwitchCase& how) {
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> other, client::Client::Connect({.address = address}));
  std::atomic<bool> stop = false;
  std::atomic<int64_t> answered = 0;
  absl::Status searched;
  const uint32_t named = how.searches_name_it ? queries.generation : 0;
  std::thread searcher([&] { searched = SearchOn(*other, queries, named, stop, &answered); });
  std::vector<double> activations, rollbacks;
  const auto timed = [](const auto& change, std::vector<double>* times) -> absl::Status {
    const auto start = std::chrono::steady_clock::now();
    LC_RETURN_IF_ERROR(change());
    times->push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    return absl::OkStatus();
  };
  const auto roll_back = [&]() -> absl::Status {
    v1::RollbackRequest request;
    request.set_collection(queries.collection);
    request.set_expect_active(queries.generation);
    LC_ASSIGN_OR_RETURN(const v1::RollbackResponse response, client.RollbackGeneration(request));
    const uint32_t serves = response.generation().generation();
    return serves == how.older ? absl::OkStatus()
                               : Internal(StrCat("rolled back to generation ", serves, ", not ", how.older));
  };
  absl::Status switched;
  for (int i = 0; i < kSwitches && switched.ok(); ++i) {
    switched = timed(roll_back, &rollbacks);
    if (!switched.ok()) break;
    switched = timed([&] { return ActivateModel(client, queries.collection, queries.generation, how.force_reason); },
                     &activations);
  }
  stop = true;
  searcher.join();
  LC_RETURN_IF_ERROR(switched);
  LC_RETURN_IF_ERROR(Annotate(searched, "a search while generations were switched"));
  return SwitchTimes{Median(activations), Median(rollbacks), answered};
}

}  // namespace lightcone::cli
