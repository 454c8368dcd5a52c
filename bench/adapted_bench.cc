// A leg behind an item adapter: its candidates carried one by one, the gallery carried over, and what a search of it
// costs then beside a native one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>

#include "base/files.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/index_world.h"
#include "bench/recall.h"
#include "geometry/adapter.h"
#include "index/adapted/carried_segments.h"

namespace lightcone::bench {
namespace {

constexpr int kWidth = 512;
constexpr int64_t kQueries = 1'000;
constexpr int kRounds = 7;
constexpr double kRecall = 0.95;
constexpr int64_t kUnlimited = int64_t{1} << 50;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A map as fits give: mostly linear, bent a little by the hidden units.
AdapterSpec SpecOf(int dimension) {
  std::mt19937_64 random(17);
  std::normal_distribution<float> normal;
  const size_t d = static_cast<size_t>(dimension);
  const auto numbers = [&](size_t n, double scale) {
    std::vector<float> values(n);
    for (float& x : values) x = static_cast<float>(scale) * normal(random);
    return values;
  };
  const double gain = 1 / std::sqrt(static_cast<double>(dimension));
  AdapterSpec spec;
  spec.kind = AdapterKind::kResidualMlp;
  spec.input_dimension = dimension;
  spec.target = {Metric::kLorentz, dimension, 1.0, 1.2};
  spec.width = kWidth;
  spec.linear = numbers(d * d, gain);
  spec.offset = numbers(d, 0.01);
  spec.hidden = numbers(kWidth * d, gain);
  spec.hidden_offset = numbers(kWidth, 0.1);
  spec.output = numbers(d * kWidth, 0.3 / std::sqrt(static_cast<double>(kWidth)));
  return spec;
}

class AdaptedBench {
 public:
  AdaptedBench(const BenchOptions& options, Adapter adapter, Report& report)
      : options_(options),
        adapter_(std::move(adapter)),
        report_(report),
        old_space_{Metric::kLorentz, adapter_.input_dimension(), 1.0, 1.0},
        new_space_(adapter_.target()),
        d_(static_cast<size_t>(adapter_.input_dimension())) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(MeasureCandidates(1));
    LC_RETURN_IF_ERROR(MeasureCarrying(options_.scan_items, 200'000));
    return MeasureLeg();
  }
  // Of text models' vectors.
  absl::Status RunText() {
    LC_RETURN_IF_ERROR(MeasureCandidates(1.5));
    return MeasureCarrying(options_.scan_items / 5, 150'000);
  }

 private:
  std::vector<float> Carried(std::span<const float> rows) const {
    std::vector<float> out(rows.size());
    adapter_.Apply(rows, out);
    return out;
  }

  // A gallery of as many rows as are candidates, none of them kept.
  absl::Status MeasureCandidates(double most_ms) {
    constexpr int64_t kCandidates = 200;
    const std::vector<float> rows = ClusteredVectors(kCandidates + kQueries, static_cast<int>(d_), 50, 0.7, 5);
    const std::span<const float> queries = std::span(rows).subspan(kCandidates * d_);
    const std::vector<float> carried = Carried(queries);
    LC_ASSIGN_OR_RETURN(const auto world, IndexWorld::Build(options_.folder + "/candidates", old_space_, {},
                                                            std::span(rows).first(kCandidates * d_)));
    std::vector<double> ms;
    for (int round = 0; round <= kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t q = 0; q < kQueries; ++q) {
        const auto query = std::span(carried).subspan(static_cast<size_t>(q) * d_, d_);
        LC_ASSIGN_OR_RETURN(const BoundQuery bound, BoundQuery::Make(new_space_, new_space_, query));
        SearchRequest request;
        request.generation = request.view_generation = 1;
        request.adapter = &adapter_;
        request.adapted_query = &bound;
        LC_ASSIGN_OR_RETURN(const SearchResult result, world->view().Search(request));
        if (result.rows_adapted != kCandidates) return Internal(StrCat(result.rows_adapted, " rows were carried"));
      }
      if (round > 0) ms.push_back(1000 * SecondsSince(begin) / static_cast<double>(kQueries));
    }
    report_.AddAtMost(StrCat(kCandidates, " candidates adapted ", Shape(), " and re-ranked, one core"), Median(ms),
                      "ms", most_ms, Spread(ms));
    return absl::OkStatus();
  }

  // "128-512-128", or "768-768" of a map without hidden units
  std::string Shape() const {
    return adapter_.kind() == AdapterKind::kAffine ? StrCat(d_, "-", d_) : StrCat(d_, "-", kWidth, "-", d_);
  }

  absl::Status MeasureCarrying(int64_t rows, double goal) {
    const std::string folder = options_.folder + "/carrying";
    IndexSettings settings;
    settings.kind = SealedKind::kFlat;
    settings.build_threads = kThreads;
    LC_ASSIGN_OR_RETURN(auto world, IndexWorld::Build(folder, old_space_, settings,
                                                      ClusteredVectors(rows, static_cast<int>(d_), 500, 0.7, 6)));
    std::vector<double> rates;
    for (int round = 0; round < kRounds; ++round) {
      const std::string to = StrCat(folder, "/adapted/", round);
      CarriedSegments carried(&adapter_, 0, to, std::make_shared<AdaptedBudget>(kUnlimited));
      const auto begin = std::chrono::steady_clock::now();
      LC_RETURN_IF_ERROR(world->view().Adapt(1, nullptr, &carried, settings, {}));
      rates.push_back(static_cast<double>(rows) / SecondsSince(begin));
      if (carried.rows() != rows) return Internal(StrCat(carried.rows(), " rows were carried over"));
      std::error_code ignored;
      std::filesystem::remove_all(to, ignored);
    }
    report_.Add({.name = StrCat(rows, " x ", d_, " carried over: rows, codes, files, 2 threads"),
                 .value = Median(rates),
                 .unit = "rows/s",
                 .peer = "the goal",
                 .peer_value = goal,
                 .ratio = Median(rates) / goal,
                 .goal = "ratio >= 1",
                 .met = Median(rates) >= goal,
                 .spread = Spread(rates)});
    return absl::OkStatus();
  }

  // The same rows, carried over and native to the target space.
  absl::Status MeasureLeg() {
    const std::vector<float> all = ClusteredVectors(options_.items + kQueries, options_.dimension, 500, 0.7, 7);
    const auto rows = std::span(all).first(static_cast<size_t>(options_.items) * d_);
    const std::vector<float> carried_all = Carried(all);
    const std::span<const float> carried_rows = std::span(carried_all).first(rows.size());
    queries_ = std::span(carried_all).subspan(rows.size());
    IndexSettings settings;
    settings.build_threads = kThreads;
    LC_ASSIGN_OR_RETURN(const auto native,
                        IndexWorld::Build(options_.folder + "/native", new_space_, settings, carried_rows));
    LC_ASSIGN_OR_RETURN(const auto old, IndexWorld::Build(options_.folder + "/old", old_space_, settings, rows));
    const std::string to = options_.folder + "/old/adapted/1";
    CarriedSegments carried(&adapter_, 0, to, std::make_shared<AdaptedBudget>(kUnlimited));
    const auto begin = std::chrono::steady_clock::now();
    LC_RETURN_IF_ERROR(old->view().Adapt(1, nullptr, &carried, settings, {}));
    const double seconds = SecondsSince(begin);
    bool own_graph = false;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(to)) {
      own_graph = own_graph || entry.path().filename() == "graph.hnsw";
    }

    const auto ask = [&](const IndexView& view, bool adapted, int64_t q, int ef, bool exact) -> Ids {
      Ids ids;
      const auto query = queries_.subspan(static_cast<size_t>(q) * d_, d_);
      const auto bound = BoundQuery::Make(new_space_, new_space_, query);
      if (!bound.ok()) return ids;
      SearchRequest request;
      request.generation = request.view_generation = 1;
      request.exact = exact;
      request.ef = ef;
      if (adapted) {
        request.adapter = &adapter_;
        request.adapted_query = &*bound;
        request.carried = &carried;
      } else {
        request.query = &*bound;
      }
      const auto result = view.Search(request);
      if (!result.ok()) return ids;
      for (const SearchHit& hit : result->hits) ids.push_back(hit.internal_id);
      return ids;
    };
    std::vector<Ids> truth;
    for (int64_t q = 0; q < kQueries; ++q) truth.push_back(ask(native->view(), false, q, 0, true));
    const AskAll of_native = [&](int64_t q, int ef) { return ask(native->view(), false, q, ef, false); };
    const AskAll of_adapted = [&](int64_t q, int ef) { return ask(old->view(), true, q, ef, false); };
    const RecallFigures figures = MeasureAtRecall(of_adapted, of_native, truth, kRecall, kRounds);
    report_.Add(
        {.name = StrCat("adapted leg, ", options_.items, " x ", d_, ", recall@10 ", kRecall, ", ef ", figures.ef,
                        own_graph ? ", new graph" : ", old graph", ", carried in ", std::lround(seconds), " s"),
         .value = figures.us,
         .unit = "us",
         .peer = StrCat("the same rows native, ef ", figures.peer_ef),
         .peer_value = figures.peer_us,
         .ratio = figures.ratio,
         .goal = "ratio <= 1.05",
         .met = figures.reached && figures.ratio <= 1.05,
         .spread = figures.spread});
    return absl::OkStatus();
  }

  static constexpr int kThreads = 2;
  const BenchOptions& options_;
  const Adapter adapter_;
  Report& report_;
  const Space old_space_, new_space_;
  const size_t d_;
  std::span<const float> queries_;
};

}  // namespace

absl::Status BenchAdapted(const BenchOptions& options, Report& report) {
  LC_ASSIGN_OR_RETURN(Adapter adapter, Adapter::Make(SpecOf(options.dimension)));
  LC_RETURN_IF_ERROR(AdaptedBench(options, std::move(adapter), report).Run());
  constexpr int kTextDimension = 768;
  AdapterSpec text = SpecOf(kTextDimension);
  text.kind = AdapterKind::kAffine;
  text.width = 0;
  text.hidden.clear();
  text.hidden_offset.clear();
  text.output.clear();
  LC_ASSIGN_OR_RETURN(Adapter text_adapter, Adapter::Make(text));
  std::error_code ignored;
  std::filesystem::remove_all(options.folder, ignored);
  return AdaptedBench(options, std::move(text_adapter), report).RunText();
}

}  // namespace lightcone::bench
