#include "bench/geometry_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "bench/benches.h"
#include "geometry/aligned.h"
#include "geometry/bound_query.h"
#include "geometry/kernels.h"

namespace lightcone::bench {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Keeps the compiler from dropping a computed value.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// Registers of 16, 32 and 64 bytes.
struct Bytes16 {
  typedef std::uint64_t Words __attribute__((vector_size(16), may_alias));
};
struct Bytes32 {
  typedef std::uint64_t Words __attribute__((vector_size(32), may_alias));
};
struct Bytes64 {
  typedef std::uint64_t Words __attribute__((vector_size(64), may_alias));
};

// The plain read: integer additions of whole registers, eight of them in flight.
template <typename Register>
[[gnu::always_inline]] inline std::uint64_t SumWords(const float* data, std::size_t floats) {
  using Words = typename Register::Words;
  constexpr std::size_t kBytes = sizeof(Words);
  constexpr std::size_t kStep = 8 * kBytes / sizeof(float);
  Words sums[8] = {};
  for (std::size_t i = 0; i + kStep <= floats; i += kStep) {
    const Words* words = reinterpret_cast<const Words*>(data + i);
    for (int j = 0; j < 8; ++j) sums[j] += words[j];
  }
  std::uint64_t total = 0;
  for (const Words& sum : sums) {
    for (std::size_t lane = 0; lane < kBytes / sizeof(std::uint64_t); ++lane) total += sum[lane];
  }
  return total;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] std::uint64_t ReadAvx512(const float* data, std::size_t floats) {
  return SumWords<Bytes64>(data, floats);
}
[[gnu::target("avx2")]] std::uint64_t ReadAvx2(const float* data, std::size_t floats) {
  return SumWords<Bytes32>(data, floats);
}
std::uint64_t PlainRead(const float* data, std::size_t floats) {
  if (__builtin_cpu_supports("avx512f")) return ReadAvx512(data, floats);
  if (__builtin_cpu_supports("avx2")) return ReadAvx2(data, floats);
  return SumWords<Bytes16>(data, floats);
}
#else
std::uint64_t PlainRead(const float* data, std::size_t floats) { return SumWords<Bytes16>(data, floats); }
#endif

template <typename Work>
double SecondsOf(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A gallery of random rows with its factors, and queries.
struct Workload {
  explicit Workload(const GeometryBenchOptions& options)
      : space{Metric::kLorentz, options.dimension, 1.0, 1.2},
        rows(options.rows * static_cast<std::size_t>(options.dimension)),
        order(options.rows) {
    std::mt19937_64 random(42);
    std::uniform_real_distribution<float> uniform(-0.2f, 0.2f);
    for (float& x : rows) x = uniform(random);
    const std::size_t d = static_cast<std::size_t>(options.dimension);
    for (std::size_t i = 0; i < options.rows; ++i) factors.push_back(FactorsOf(space, rows.span().subspan(i * d, d)));
    for (std::size_t q = 0; q < std::max<std::size_t>(1, options.batch_queries); ++q) {
      const std::size_t row = q * 31 % options.rows;
      queries.push_back(BoundQuery::Make(space, space, rows.span().subspan(row * d, d)).value());
    }
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
  }

  Space space;
  AlignedFloats rows;
  std::vector<RowFactors> factors;
  std::vector<BoundQuery> queries;
  std::vector<std::uint32_t> order;
};

}  // namespace

void ReadPlainly(std::span<const float> data) { Keep(PlainRead(data.data(), data.size())); }

GeometryFigures MeasureGeometry(const GeometryBenchOptions& options) {
  const Workload work(options);
  const std::size_t n = options.rows;
  const std::size_t d = static_cast<std::size_t>(options.dimension);
  const float* rows = work.rows.data();
  const double gib = static_cast<double>(n * d * sizeof(float)) / kGib;
  std::vector<float> scores(n * work.queries.size());
  std::vector<double> kernel, read, share, gathered, batch, exact;
  for (int round = 0; round <= options.rounds; ++round) {
    const double read_s = SecondsOf([&] { Keep(PlainRead(rows, n * d)); });
    const double kernel_s = SecondsOf([&] {
      ScoreRows(work.queries[0], rows, d, work.factors.data(), n, scores.data());
      Keep(scores[n - 1]);
    });
    const double gathered_s = SecondsOf([&] {
      ScoreRowsGathered(work.queries[0], rows, d, work.factors.data(), work.order.data(), n, scores.data());
      Keep(scores[n - 1]);
    });
    const double batch_s = SecondsOf([&] {
      ScoreRowsBatch(QueryBatch(std::span<const BoundQuery>(work.queries)), rows, d, work.factors.data(), n,
                     scores.data(), n);
      Keep(scores[n - 1]);
    });
    constexpr std::size_t kExact = 2'000;
    const double exact_s = SecondsOf([&] {
      double sum = 0;
      for (std::size_t i = 0; i < kExact; ++i) {
        sum += work.queries[0].Distance(work.rows.span().subspan(work.order[i % n] * d, d));
      }
      Keep(sum);
    });
    if (round == 0) continue;  // pages and caches warm up
    read.push_back(gib / read_s);
    kernel.push_back(gib / kernel_s);
    share.push_back(read_s / kernel_s);
    gathered.push_back(gib / gathered_s);
    batch.push_back(batch_s);
    exact.push_back(exact_s / kExact * 1e9);
  }
  GeometryFigures figures;
  figures.kernel_gib_per_s = Median(kernel);
  figures.plain_read_gib_per_s = Median(read);
  figures.kernel_share_of_read = Median(share);
  figures.gathered_gib_per_s = Median(gathered);
  const double batch_s = Median(batch);
  figures.batch_gib_per_s = gib * static_cast<double>(work.queries.size()) / batch_s;
  figures.batch_gflop_per_s = 2e-9 * static_cast<double>(n * d * work.queries.size()) / batch_s;
  figures.exact_ns_per_distance = Median(exact);
  figures.share_spread = Spread(share);
  figures.target = std::string(KernelTargetName(ActiveKernelTarget()));
  return figures;
}

absl::Status BenchGeometry(const BenchOptions& options, Report& report) {
  GeometryBenchOptions geometry;
  geometry.dimension = options.dimension;
  const GeometryFigures figures = MeasureGeometry(geometry);
  constexpr double kShareMin = 0.8;
  report.Add({.name = "kernel, one query (" + figures.target + ")",
              .value = figures.kernel_gib_per_s,
              .unit = "GiB/s",
              .peer = "plain read of the same bytes",
              .peer_value = figures.plain_read_gib_per_s,
              .ratio = figures.kernel_share_of_read,
              .goal = "ratio >= 0.8",
              .met = figures.kernel_share_of_read >= kShareMin,
              .spread = figures.share_spread});
  report.Add({.name = "kernel, " + std::to_string(geometry.batch_queries) + " queries together",
              .value = figures.batch_gib_per_s,
              .unit = "GiB/s",
              .peer = "one query at a time",
              .peer_value = figures.kernel_gib_per_s,
              .ratio = figures.batch_gib_per_s / figures.kernel_gib_per_s,
              .goal = "ratio >= 1",
              .met = figures.batch_gib_per_s >= figures.kernel_gib_per_s});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
