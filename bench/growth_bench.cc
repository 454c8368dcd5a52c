// How the time of a search, an upsert, an activation and a restart, and the bytes, grow with the gallery: three sizes,
// a factor of ten apart, and the exponent of the power law that fits them.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "server/engine/engine.h"

namespace lightcone::bench {
namespace {

using server::Engine;

constexpr char kCollection[] = "gallery";
constexpr int kRounds = 5;
constexpr int kQueries = 1'000;
constexpr int64_t kBatch = 100;
constexpr int kBatches = 40;
constexpr int kActivations = 20;

struct Times {
  double search_us = 0, upsert_us = 0, activation_us = 0, restart_ms = 0, index_bytes = 0;
};

// The median over `rounds` of the microseconds of one of `n` calls.
absl::StatusOr<double> MicrosecondsOf(int rounds, int n, const std::function<absl::Status(int round, int i)>& call) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) LC_RETURN_IF_ERROR(call(round, i));
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / n);
  }
  return Median(times);
}

class Gallery {
 public:
  Gallery(const BenchOptions& options, int64_t items) : dimension_(options.dimension), items_(items) {
    engine_options_.data_folder = StrCat(options.folder, "/growth-", items);
  }

  absl::StatusOr<Times> Measure() {
    LC_RETURN_IF_ERROR(Fill());
    LC_RETURN_IF_ERROR(SearchAll(0));  // warm-up
    Times times;
    LC_ASSIGN_OR_RETURN(times.search_us,
                        MicrosecondsOf(kRounds, kQueries, [&](int, int i) { return Search(static_cast<size_t>(i)); }));
    int64_t next = items_;
    LC_ASSIGN_OR_RETURN(times.upsert_us, MicrosecondsOf(kRounds, kBatches, [&](int, int) {
                          next += kBatch;
                          return Upsert(next - kBatch, kBatch, Durability::kDurable);
                        }));
    LC_ASSIGN_OR_RETURN(times.activation_us, MicrosecondsOf(kRounds, kActivations, [&](int, int i) {
                          return Activate(i % 2 == 0 ? 2 : 1);
                        }));
    LC_ASSIGN_OR_RETURN(const double restart_us, MicrosecondsOf(kRounds, 1, [&](int, int) {
                          engine_.reset();
                          LC_ASSIGN_OR_RETURN(engine_, Engine::Open(engine_options_));
                          return Search(0);
                        }));
    times.restart_ms = restart_us / 1000;
    LC_ASSIGN_OR_RETURN(const server::CollectionStatus status, engine_->GetCollection(kCollection));
    times.index_bytes = static_cast<double>(status.mapped_bytes);
    engine_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(engine_options_.data_folder, ignored);
    return times;
  }

 private:
  absl::Status Fill() {
    LC_ASSIGN_OR_RETURN(engine_, Engine::Open(engine_options_));
    server::CreateCollectionCall create;
    create.name = kCollection;
    create.index.growing_rows_max = items_;  // one segment, built once
    create.index.build_threads = 2;
    LC_RETURN_IF_ERROR(engine_->CreateCollection(create).status());
    for (const uint32_t parent : {0u, 1u}) {
      server::RegisterCall add;
      add.collection = kCollection;
      add.parent = parent;
      add.manifest_json = StrCat("{\"dimension\": ", dimension_, ", \"curvature\": 1.0, \"clip_radius\": 1.2}");
      LC_RETURN_IF_ERROR(engine_->RegisterGeneration(add).status());
    }
    LC_RETURN_IF_ERROR(Activate(1));
    constexpr int64_t kLoadBatch = 1'000;
    for (int64_t begin = 0; begin < items_; begin += kLoadBatch) {
      LC_RETURN_IF_ERROR(Upsert(begin, std::min(kLoadBatch, items_ - begin), Durability::kProcess));
    }
    server::IndexChange usual;
    usual.growing_rows_max = IndexSettings().growing_rows_max;
    return engine_->Rebuild(kCollection, usual, /*wait=*/true, "", {}).status();
  }

  absl::Status Upsert(int64_t first, int64_t n, Durability durability) {
    const std::vector<float> rows = ClusteredVectors(n, dimension_, 500, 0.7, 1000 + static_cast<uint64_t>(first));
    server::UpsertBatch batch;
    batch.collection = kCollection;
    batch.durability = durability;
    for (int64_t i = 0; i < n; ++i) {
      server::UpsertItem& item = batch.items.emplace_back();
      item.id = ItemId(static_cast<uint64_t>(first + i));
      item.content = std::vector<float>(rows.begin() + i * dimension_, rows.begin() + (i + 1) * dimension_);
    }
    return engine_->Upsert(std::move(batch), {}).status();
  }

  absl::Status Activate(uint32_t generation) {
    server::ActivateCall call;
    call.collection = kCollection;
    call.generation = generation;
    return engine_->ActivateGeneration(call).status();
  }

  absl::Status Search(size_t i) {
    server::SearchCall call;
    call.collection = kCollection;
    call.queries.resize(1);
    const size_t d = static_cast<size_t>(dimension_);
    call.queries[0].content =
        std::vector<float>(queries_.begin() + static_cast<std::ptrdiff_t>(i * d),
                           queries_.begin() + static_cast<std::ptrdiff_t>((i + 1) * d));
    LC_ASSIGN_OR_RETURN(const server::SearchAnswer answer, engine_->Search(call, {}));
    return answer.results[0].status;
  }

  absl::Status SearchAll(size_t begin) {
    for (size_t i = begin; i < kQueries; ++i) LC_RETURN_IF_ERROR(Search(i));
    return absl::OkStatus();
  }

  const int dimension_;
  const int64_t items_;
  const std::vector<float> queries_ = ClusteredVectors(kQueries, dimension_, 500, 0.7, 999);
  server::EngineOptions engine_options_;
  std::unique_ptr<Engine> engine_;
};

// The slope of log(value) over log(size), by least squares.
double Exponent(const std::vector<double>& sizes, const std::vector<double>& values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double u = std::log(sizes[i]), v = std::log(values[i]);
    x += u;
    y += v;
    xx += u * u;
    xy += u * v;
  }
  const double n = static_cast<double>(sizes.size());
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace

absl::Status BenchGrowth(const BenchOptions& options, Report& report) {
  std::vector<double> sizes;
  std::vector<Times> times;
  for (const int64_t part : {100, 10, 1}) {
    const int64_t items = std::max<int64_t>(options.life_items / part, 100);
    LC_ASSIGN_OR_RETURN(const Times measured, Gallery(options, items).Measure());
    sizes.push_back(static_cast<double>(items));
    times.push_back(measured);
  }
  const auto add = [&](const std::string& what, double Times::*value, const std::string& unit, double exponent_max) {
    std::vector<double> values;
    std::string list;
    for (const Times& one : times) {
      values.push_back(one.*value);
      char text[32];
      std::snprintf(text, sizeof(text), "%.4g", one.*value);
      list += StrCat(list.empty() ? "" : ", ", std::string(text));
    }
    Figure figure;
    figure.name = StrCat("growth of ", what, ": ", list, " ", unit, " at ", static_cast<int64_t>(sizes[0]),
                         " x 1, 10, 100");
    figure.value = Exponent(sizes, values);
    figure.unit = "exponent";
    if (exponent_max > 0) {
      figure.peer = "the limit";
      figure.peer_value = exponent_max;
      figure.ratio = figure.value / exponent_max;
      figure.goal = StrCat("value <= ", exponent_max);
      figure.met = figure.value <= exponent_max;
    }
    report.Add(std::move(figure));
  };
  add("a search, top 10, HNSW", &Times::search_us, "us", 0.25);
  add("a durable upsert of 100", &Times::upsert_us, "us", 0.05);
  add("an activation", &Times::activation_us, "us", 0.05);
  add("a restart to the first answer", &Times::restart_ms, "ms", 0);
  add("the index's files", &Times::index_bytes, "bytes", 0);
  return absl::OkStatus();
}

}  // namespace lightcone::bench
