// Exact search of a sealed segment: by its vectors against the plain speed of memory, by int8 codes against by vectors,
// and Lorentz space against the inner product on the same path.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/blas.h"
#include "bench/clusters.h"
#include "bench/geometry_bench.h"
#include "bench/index_world.h"
#include "bench/machine.h"
#include "trainer/tensor_threads.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kQueries = 10'000;  // on which answers have to be identical
constexpr int kRounds = 5;
constexpr int kThreads = 2;
constexpr size_t kTogether = 64;    // queries of one call
constexpr size_t kBlasRows = 4096;  // of one product, whose result stays in a cache

struct Pair {
  std::vector<double> ours, peer, ratios;  // queries a second, a round each
};

bool SameHits(const std::vector<SearchHit>& x, const std::vector<SearchHit>& y) {
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i].internal_id != y[i].internal_id || x[i].distance != y[i].distance) return false;
  }
  return true;
}

// By turns, round after round; `different` counts queries whose answers are not the same, where they should be.
absl::StatusOr<Pair> Measure(const IndexWorld& ours, const IndexWorld& peer, std::span<const float> queries,
                             int64_t queries_a_round, int64_t* different, int64_t* refined) {
  Pair pair;
  const size_t dimension = static_cast<size_t>(ours.space().dimension);
  std::atomic<int64_t> failures = 0, refined_rows = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<SearchHit>> answers[2];
    double seconds[2];
    for (int side = 0; side < 2; ++side) {
      const IndexWorld& world = side == 0 ? ours : peer;
      answers[side].resize(static_cast<size_t>(queries_a_round));
      seconds[side] = SecondsOfQueries(queries_a_round, kThreads, [&](int64_t q) {
        const size_t row = static_cast<size_t>(round * queries_a_round + q);
        auto result = world.Search(queries.subspan(row * dimension, dimension), {.exact = true});
        if (!result.ok()) {
          ++failures;
          return;
        }
        if (side == 0) refined_rows += result->rows_refined;
        answers[side][static_cast<size_t>(q)] = std::move(result->hits);
      });
    }
    if (failures > 0) return Internal(StrCat(failures.load(), " searches failed"));
    for (size_t q = 0; q < answers[0].size(); ++q) *different += !SameHits(answers[0][q], answers[1][q]);
    pair.ours.push_back(static_cast<double>(queries_a_round) / seconds[0]);
    pair.peer.push_back(static_cast<double>(queries_a_round) / seconds[1]);
    pair.ratios.push_back(seconds[1] / seconds[0]);
  }
  *refined = refined_rows / (kRounds * queries_a_round);
  return pair;
}

// One thread's scan beside a plain read of the same bytes.
void ReportBandwidth(const IndexWorld& world, std::span<const float> rows, std::span<const float> queries,
                     Report& report) {
  const size_t dimension = static_cast<size_t>(world.space().dimension);
  constexpr int64_t kScans = 10;
  std::vector<double> scan_gib, read_gib, shares;
  const double gib = static_cast<double>(rows.size_bytes()) / (1 << 30);
  for (int round = 0; round <= kRounds; ++round) {
    const double read_s = SecondsOfQueries(kScans, 1, [&](int64_t) { ReadPlainly(rows); }) / kScans;
    const double scan_s = SecondsOfQueries(kScans, 1,
                                           [&](int64_t q) {
                                             const size_t begin = static_cast<size_t>(q) * dimension;
                                             (void)world.Search(queries.subspan(begin, dimension), {.exact = true});
                                           }) /
                          kScans;
    if (round == 0) continue;  // warms up
    scan_gib.push_back(gib / scan_s);
    read_gib.push_back(gib / read_s);
    shares.push_back(read_s / scan_s);
  }
  report.Add({.name = StrCat("exact top-10 by float32, ", rows.size() / dimension, " x ", dimension, ", one thread"),
              .value = Median(scan_gib),
              .unit = "GiB/s",
              .peer = "plain read of the same bytes",
              .peer_value = Median(read_gib),
              .ratio = Median(shares),
              .goal = "ratio >= 0.85",
              .met = Median(shares) >= 0.85,
              .spread = Spread(shares)});
}

// One thread's scan for many queries beside a BLAS product of the same rows and queries, which does not even compare.
absl::Status ReportTogether(const IndexWorld& world, std::span<const float> rows, std::span<const float> queries,
                            const char* by, Report& report) {
  const BlasThreads one_thread(1);
  const int dimension = world.space().dimension;
  const size_t count = rows.size() / static_cast<size_t>(dimension);
  const std::span<const float> asked = queries.first(kTogether * static_cast<size_t>(dimension));
  std::vector<float> products(kBlasRows * kTogether);
  const double operations = 2e-9 * static_cast<double>(rows.size()) * kTogether;
  const double fma = 1e-9 * FmaRate();
  std::vector<double> ours, blas, shares;
  for (int round = 0; round <= kRounds; ++round) {
    const double blas_s = SecondsOfQueries(1, 1, [&](int64_t) {
      for (size_t begin = 0; begin < count; begin += kBlasRows) {
        const int n = static_cast<int>(std::min(kBlasRows, count - begin));
        BlasProduct(n, static_cast<int>(kTogether), dimension, &rows[begin * static_cast<size_t>(dimension)],
                    asked.data(), 0, products.data());
      }
    });
    absl::Status status;
    const double scan_s =
        SecondsOfQueries(1, 1, [&](int64_t) { status = world.SearchTogether(asked, {.exact = true}).status(); });
    LC_RETURN_IF_ERROR(status);
    if (round == 0) continue;  // warms up
    ours.push_back(operations / scan_s);
    blas.push_back(operations / blas_s);
    shares.push_back(operations / scan_s / std::max(operations / blas_s, fma));
  }
  report.Add(
      {.name = StrCat("exact top-10 by ", by, ", ", count, " x ", dimension, ", ", kTogether,
                      " queries together, one thread (fused multiply-adds alone: ", std::lround(fma), " Gflop/s)"),
       .value = Median(ours),
       .unit = "Gflop/s",
       .peer = "BLAS product of that shape",
       .peer_value = Median(blas),
       .ratio = Median(shares),
       .goal = "ratio to the faster of the two >= 0.7",
       .met = Median(shares) >= 0.7,
       .spread = Spread(shares)});
  return absl::OkStatus();
}

// Calls of one query each by more callers than there are cores, which the index then takes together, beside as many
// callers as cores, of which none waits.
absl::Status ReportCallers(const IndexWorld& world, std::span<const float> queries, const char* by, Report& report) {
  constexpr int kCallers = 8;
  constexpr int64_t kCalls = 400;
  const size_t dimension = static_cast<size_t>(world.space().dimension);
  std::atomic<int64_t> failures = 0;
  const auto rate = [&](int callers) {
    return static_cast<double>(kCalls) / SecondsOfQueries(kCalls, callers, [&](int64_t q) {
             failures +=
                 !world.Search(queries.subspan(static_cast<size_t>(q) * dimension, dimension), {.exact = true}).ok();
           });
  };
  std::vector<double> many, few, ratios;
  for (int round = 0; round <= kRounds; ++round) {
    const double with = rate(kCallers), without = rate(kThreads);
    if (round == 0) continue;  // warms up
    many.push_back(with);
    few.push_back(without);
    ratios.push_back(with / without);
  }
  if (failures > 0) return Internal(StrCat(failures.load(), " searches failed"));
  report.Add({.name = StrCat("exact top-10 by ", by, ", ", kCallers, " callers of one query"),
              .value = Median(many),
              .unit = "queries/s",
              .peer = StrCat(kThreads, " callers"),
              .peer_value = Median(few),
              .ratio = Median(ratios),
              .goal = "ratio >= 1",
              .met = Median(ratios) >= 1,
              .spread = Spread(ratios)});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchScan(const BenchOptions& options, Report& report) {
  const int64_t rows = options.scan_items;
  const std::vector<float> data = ClusteredVectors(rows + kQueries, options.dimension, 500, 0.7, 12);
  const size_t gallery = static_cast<size_t>(rows) * static_cast<size_t>(options.dimension);
  const std::span<const float> all(data);
  const std::span<const float> queries = all.subspan(gallery);
  const Space lorentz{Metric::kLorentz, options.dimension, 1.0, 1.2};
  const Space product{Metric::kInnerProduct, options.dimension, 1.0, 1.0};
  IndexSettings settings;
  settings.kind = SealedKind::kFlat;
  settings.codes = RowCodes::kFloat32;
  LC_ASSIGN_OR_RETURN(const auto floats,
                      IndexWorld::Build(options.folder + "/f32", lorentz, settings, all.first(gallery)));
  settings.codes = RowCodes::kInt8;
  LC_ASSIGN_OR_RETURN(const auto codes,
                      IndexWorld::Build(options.folder + "/i8", lorentz, settings, all.first(gallery)));
  LC_ASSIGN_OR_RETURN(const auto inner,
                      IndexWorld::Build(options.folder + "/ip", product, settings, all.first(gallery)));

  int64_t different = 0, refined = 0, unused = 0;
  LC_ASSIGN_OR_RETURN(const Pair by_codes, Measure(*codes, *floats, queries, kQueries / kRounds, &different, &refined));
  const double ratio = Median(by_codes.ratios);
  report.Add(
      {.name = StrCat("exact top-10 by int8 codes, ", rows, " x ", options.dimension, ", ", kThreads, " threads (",
                      refined, " rows a query read as float32; ", different, " of ", kQueries, " answers differ)"),
       .value = Median(by_codes.ours),
       .unit = "queries/s",
       .peer = "exact top-10 by float32",
       .peer_value = Median(by_codes.peer),
       .ratio = ratio,
       .goal = "ratio >= 3, no answer differs",
       .met = ratio >= 3 && different == 0,
       .spread = Spread(by_codes.ratios)});

  ReportBandwidth(*floats, all.first(gallery), queries, report);
  LC_RETURN_IF_ERROR(ReportTogether(*floats, all.first(gallery), queries, "float32", report));
  LC_RETURN_IF_ERROR(ReportTogether(*codes, all.first(gallery), queries, "int8 codes", report));

  LC_RETURN_IF_ERROR(ReportCallers(*floats, queries, "float32", report));
  LC_RETURN_IF_ERROR(ReportCallers(*codes, queries, "int8 codes", report));

  LC_ASSIGN_OR_RETURN(const Pair by_metric, Measure(*inner, *codes, queries, 500, &unused, &unused));
  const double slower = Median(by_metric.ratios);  // seconds of Lorentz over seconds of the inner product
  report.Add({.name = StrCat("exact top-10 in Lorentz space, ", rows, " x ", options.dimension),
              .value = 1e3 * kThreads / Median(by_metric.peer),
              .unit = "ms",
              .peer = "by inner product on the same path",
              .peer_value = 1e3 * kThreads / Median(by_metric.ours),
              .ratio = slower,
              .goal = "ratio <= 1.05",
              .met = slower <= 1.05,
              .spread = Spread(by_metric.ratios)});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
