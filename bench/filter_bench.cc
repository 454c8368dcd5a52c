// Filtered searches beside unfiltered ones of the same queries, through the engine: filters that share of the gallery
// passes, where what passes lies anywhere, nearest to the query, or farthest from it.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "server/engine/api/engine.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;
using server::FilterNode;

constexpr char kCollection[] = "gallery";
constexpr int kQueries = 32;
constexpr int kRounds = 5;
constexpr int kRepeats = 3;  // of every query in a round
constexpr int64_t kItemsABatch = 2'000;
constexpr double kShares[] = {0.5, 0.1, 0.01, 0.001};
constexpr const char* kLeans[] = {"any", "nearest", "farthest"};

class FilterBench {
 public:
  FilterBench(const BenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        dimension_(static_cast<size_t>(options.dimension)),
        data_(ClusteredVectors(options.items + kQueries, options.dimension, 500, 0.7, 32)) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(Fill());
    for (const double share : kShares) {
      for (const char* lean : kLeans) {
        FilterNode node;
        node.kind = FilterNode::Kind::kEquals;
        node.field = lean;
        LC_RETURN_IF_ERROR(Measure(StrCat(lean, ", by keyword"), share, [&](int q) {
          node.values = {TagOf(q, share)};
          return node;
        }));
      }
    }
    FilterNode range;
    range.kind = FilterNode::Kind::kRange;
    range.field = "number";
    for (const double share : kShares) {
      const auto rows = static_cast<int64_t>(share * static_cast<double>(options_.items));
      LC_RETURN_IF_ERROR(Measure("any, by a range of integers", share, [&](int q) {
        range.greater_equal = (options_.items - rows) * q / kQueries;
        range.less = std::get<int64_t>(*range.greater_equal) + rows;
        return range;
      }));
    }
    return absl::OkStatus();
  }

 private:
  static std::string TagOf(int query, double share) { return StrCat(query, ":", share); }
  std::span<const float> Row(int64_t i) const {
    return std::span<const float>(data_).subspan(static_cast<size_t>(i) * dimension_, dimension_);
  }
  std::span<const float> Query(int q) const { return Row(options_.items + q); }

  // {"any": [...], "nearest": [...], "farthest": [...], "number": n}: for which query's filters an item passes.
  std::vector<std::string> Payloads() const {
    const size_t items = static_cast<size_t>(options_.items);
    std::vector<std::string> tags[std::size(kLeans)];
    for (auto& of_lean : tags) of_lean.resize(items);
    std::mt19937_64 random(5);
    std::vector<std::pair<float, size_t>> order(items);
    for (int q = 0; q < kQueries; ++q) {
      for (size_t i = 0; i < items; ++i) {
        const auto row = Row(static_cast<int64_t>(i)), query = Query(q);
        float distance = 0;
        for (size_t j = 0; j < dimension_; ++j) distance += (row[j] - query[j]) * (row[j] - query[j]);
        order[i] = {distance, i};
      }
      for (size_t lean = 0; lean < std::size(kLeans); ++lean) {
        lean == 0 ? std::shuffle(order.begin(), order.end(), random) : std::sort(order.begin(), order.end());
        if (lean == 2) std::reverse(order.begin(), order.end());
        for (const double share : kShares) {
          const size_t passing = static_cast<size_t>(share * static_cast<double>(items));
          for (size_t i = 0; i < passing; ++i) {
            std::string& text = tags[lean][order[i].second];
            text += StrCat(text.empty() ? "" : ",", "\"", TagOf(q, share), "\"");
          }
        }
      }
    }
    std::vector<std::string> payloads(items);
    for (size_t i = 0; i < items; ++i) {
      for (size_t lean = 0; lean < std::size(kLeans); ++lean) {
        payloads[i] += StrCat(lean == 0 ? "{" : ",", "\"", kLeans[lean], "\":[", tags[lean][i], "]");
      }
      payloads[i] += StrCat(",\"number\":", i * 7919 % items, "}");
    }
    return payloads;
  }

  absl::Status Fill() {
    server::EngineOptions engine;
    engine.data_folder = options_.folder + "/filters";
    LC_ASSIGN_OR_RETURN(engine_, server::Engine::Open(engine));
    server::CreateCollectionCall create;
    create.name = kCollection;
    create.metric = Metric::kEuclidean;
    create.index.growing_rows_max = options_.items;
    create.index.build_threads = 2;
    for (const char* lean : kLeans) create.payload_fields.push_back({lean, server::PayloadType::kKeyword});
    create.payload_fields.push_back({"number", server::PayloadType::kInteger});
    LC_RETURN_IF_ERROR(engine_->CreateCollection(create).status());
    server::RegisterCall generation;
    generation.collection = kCollection;
    generation.manifest_json = StrCat("{\"dimension\":", options_.dimension, "}");
    LC_RETURN_IF_ERROR(engine_->RegisterGeneration(generation).status());
    server::ActivateCall activate;
    activate.collection = kCollection;
    activate.generation = 1;
    LC_RETURN_IF_ERROR(engine_->ActivateGeneration(activate).status());
    const std::vector<std::string> payloads = Payloads();
    for (int64_t begin = 0; begin < options_.items; begin += kItemsABatch) {
      server::UpsertBatch batch;
      batch.collection = kCollection;
      for (int64_t i = begin; i < std::min(begin + kItemsABatch, options_.items); ++i) {
        server::UpsertItem item;
        item.id = ItemId{static_cast<uint64_t>(i)};
        item.content = std::vector<float>(Row(i).begin(), Row(i).end());
        item.payload_json = payloads[static_cast<size_t>(i)];
        batch.items.push_back(std::move(item));
      }
      LC_RETURN_IF_ERROR(engine_->Upsert(std::move(batch), {}).status());
    }
    LC_ASSIGN_OR_RETURN(const auto status, engine_->Rebuild(kCollection, {}, /*wait=*/true, "", {}));
    report_.Add({.name = StrCat("payload indexes, ", options_.items,
                                " items, 3 keyword fields of 120 values in all each, ", "1 of integers"),
                 .value = static_cast<double>(status.payload_index_bytes) / static_cast<double>(options_.items),
                 .unit = "B an item",
                 .peer = "none",
                 .goal = "none",
                 .met = true});
    return absl::OkStatus();
  }

  absl::StatusOr<server::SearchAnswer> Search(int q, const std::optional<FilterNode>& filter, bool exact) {
    server::SearchCall call;
    call.collection = kCollection;
    call.queries.resize(1);
    call.queries[0].content = std::vector<float>(Query(q).begin(), Query(q).end());
    call.filter = filter;
    call.exact = exact;
    call.profile = exact;
    LC_ASSIGN_OR_RETURN(server::SearchAnswer answer, engine_->Search(call, {}));
    LC_RETURN_IF_ERROR(answer.results[0].status);
    return answer;
  }

  static std::set<ItemId> IdsOf(const server::SearchAnswer& answer) {
    std::set<ItemId> ids;
    for (const server::EngineHit& hit : answer.results[0].hits) ids.insert(hit.id);
    return ids;
  }

  template <typename FilterOf>
  absl::StatusOr<double> Recall(const FilterOf& filter_of) {
    double found = 0, wanted = 0;
    for (int q = 0; q < kQueries; ++q) {
      LC_ASSIGN_OR_RETURN(const auto exact, Search(q, filter_of(q), /*exact=*/true));
      LC_ASSIGN_OR_RETURN(const auto walked, Search(q, filter_of(q), /*exact=*/false));
      const std::set<ItemId> right = IdsOf(exact);
      wanted += static_cast<double>(right.size());
      for (const ItemId& id : IdsOf(walked)) found += right.contains(id) ? 1 : 0;
    }
    return wanted > 0 ? found / wanted : 1;
  }

  template <typename FilterOf>
  absl::StatusOr<double> QueriesPerSecond(const FilterOf& filter_of) {
    const Clock::time_point start = Clock::now();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      for (int q = 0; q < kQueries; ++q) LC_RETURN_IF_ERROR(Search(q, filter_of(q), /*exact=*/false).status());
    }
    return kRepeats * kQueries / std::chrono::duration<double>(Clock::now() - start).count();
  }

  template <typename FilterOf>
  absl::Status Measure(const std::string& what, double share, const FilterOf& filter_of) {
    const auto filtered = [&](int q) { return std::optional<FilterNode>(filter_of(q)); };
    const auto unfiltered = [](int) { return std::optional<FilterNode>(); };
    LC_ASSIGN_OR_RETURN(const double recall, Recall(filtered));
    std::vector<double> ours, peer, ratios;
    for (int round = 0; round < kRounds; ++round) {
      LC_ASSIGN_OR_RETURN(const double with, QueriesPerSecond(filtered));
      LC_ASSIGN_OR_RETURN(const double without, QueriesPerSecond(unfiltered));
      ours.push_back(with);
      peer.push_back(without);
      ratios.push_back(with / without);
    }
    const double least = share >= 0.5 ? 0.8 : 0.25;
    char text[64];
    std::snprintf(text, sizeof(text), "recall@10 %.3f", recall);
    report_.Add({.name = StrCat("filter of share ", share, ", passing: ", what, ", ", options_.items, " x ",
                                options_.dimension, ", ", text),
                 .value = Median(ours),
                 .unit = "queries/s",
                 .peer = "unfiltered",
                 .peer_value = Median(peer),
                 .ratio = Median(ratios),
                 .goal = StrCat("recall >= 0.95, ratio >= ", least),
                 .met = recall >= 0.95 && Median(ratios) >= least,
                 .spread = Spread(ratios)});
    return absl::OkStatus();
  }

  const BenchOptions& options_;
  Report& report_;
  const size_t dimension_;
  const std::vector<float> data_;
  std::unique_ptr<server::Engine> engine_;
};

}  // namespace

absl::Status BenchFilters(const BenchOptions& options, Report& report) { return FilterBench(options, report).Run(); }

}  // namespace lightcone::bench
