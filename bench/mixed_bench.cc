// One view over three generations beside one over a single generation of as many rows.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/index_world.h"
#include "bench/recall.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kQueries = 1'000;
constexpr int kRounds = 7;
constexpr double kRecalls[] = {0.90, 0.95, 0.99};
constexpr uint32_t kGenerations = 3;

// The nearest ten of all generations, as the engine asks for them: the legs of one query, then merged.
Ids AskGenerations(const IndexWorld& world, std::span<const float> query, uint32_t generations, int ef, bool exact) {
  Ids ids;
  const auto bound = BoundQuery::Make(world.space(), world.space(), query);
  if (!bound.ok()) return ids;
  std::vector<SearchRequest> legs(generations);
  for (uint32_t g = 0; g < generations; ++g) {
    legs[g].query_number = 1;
    legs[g].query = &*bound;
    legs[g].generation = g + 1;
    legs[g].view_generation = generations;
    legs[g].ef = ef;
    legs[g].exact = exact;
  }
  std::vector<SearchHit> hits;
  for (const auto& result : world.view().SearchTogether(legs)) {
    if (!result.ok()) return ids;
    hits.insert(hits.end(), result->hits.begin(), result->hits.end());
  }
  std::sort(hits.begin(), hits.end(), [](const SearchHit& x, const SearchHit& y) { return x.distance < y.distance; });
  for (size_t i = 0; i < std::min<size_t>(10, hits.size()); ++i) ids.push_back(hits[i].internal_id);
  return ids;
}

}  // namespace

absl::Status BenchMixed(const BenchOptions& options, Report& report) {
  const Space space{Metric::kLorentz, options.dimension, 1.0, 1.2};
  const size_t d = static_cast<size_t>(options.dimension);
  const std::vector<float> all = ClusteredVectors(options.scan_items + kQueries, options.dimension, 500, 0.7, 41);
  const auto rows = std::span(all).first(static_cast<size_t>(options.scan_items) * d);
  const auto queries = std::span(all).subspan(rows.size());
  const auto query = [&](int64_t q) { return queries.subspan(static_cast<size_t>(q) * d, d); };
  std::vector<std::span<const float>> parts;
  for (uint32_t g = 0; g < kGenerations; ++g) {
    const size_t n = rows.size() / d, begin = n * g / kGenerations, end = n * (g + 1) / kGenerations;
    parts.push_back(rows.subspan(begin * d, (end - begin) * d));
  }
  IndexSettings settings;
  settings.build_threads = 2;
  LC_ASSIGN_OR_RETURN(const auto single, IndexWorld::Build(options.folder + "/single", space, settings, rows));
  LC_ASSIGN_OR_RETURN(const auto mixed, IndexWorld::Build(options.folder + "/mixed", space, settings, parts));
  std::vector<Ids> truth;
  for (int64_t q = 0; q < kQueries; ++q) truth.push_back(AskGenerations(*single, query(q), 1, 0, true));
  const AskAll of_mixed = [&](int64_t q, int ef) { return AskGenerations(*mixed, query(q), kGenerations, ef, false); };
  const AskAll of_single = [&](int64_t q, int ef) { return AskGenerations(*single, query(q), 1, ef, false); };
  for (const double recall : kRecalls) {
    const RecallFigures figures = MeasureAtRecall(of_mixed, of_single, truth, recall, kRounds);
    report.Add({.name = StrCat("view over ", kGenerations, " generations, ", options.scan_items, " x ", d,
                               " in all, recall@10 ", recall, ", ef ", figures.ef),
                .value = figures.us,
                .unit = "us",
                .peer = StrCat("as many rows of one, ef ", figures.peer_ef),
                .peer_value = figures.peer_us,
                .ratio = figures.ratio,
                .goal = "ratio <= 1.3",
                .met = figures.reached && figures.ratio <= 1.3,
                .spread = figures.spread});
  }
  return absl::OkStatus();
}

}  // namespace lightcone::bench
