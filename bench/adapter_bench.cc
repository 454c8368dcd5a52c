#include "bench/adapter_bench.h"

#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/blas.h"
#include "geometry/adapter.h"
#include "geometry/aligned.h"
#include "geometry/kernels.h"
#include "trainer/adapt/fit.h"
#include "trainer/tensor_threads.h"

namespace lightcone::bench {
namespace {

std::vector<float> RandomNumbers(std::size_t count, float size, std::mt19937_64& random) {
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

AdapterSpec RandomSpec(const AdapterBenchOptions& options, std::mt19937_64& random) {
  const std::size_t d = static_cast<std::size_t>(options.dimension), width = static_cast<std::size_t>(options.width);
  AdapterSpec spec;
  spec.kind = options.kind;
  spec.input_dimension = options.dimension;
  spec.target = {Metric::kLorentz, options.dimension, 1.0, 1.2};
  spec.width = options.width;
  spec.linear = RandomNumbers(d * d, 0.1f, random);
  spec.offset = RandomNumbers(d, 0.1f, random);
  spec.hidden = RandomNumbers(width * d, 0.1f, random);
  if (options.kind == AdapterKind::kKernel) {
    spec.input_radius = 1;
    spec.sharpness = 0.25f;
  } else {
    spec.hidden_offset = RandomNumbers(width, 0.1f, random);
  }
  spec.output = RandomNumbers(d * width, 0.1f, random);
  return spec;
}

template <typename Work>
double MicrosecondsOf(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

absl::StatusOr<AdapterFigures> MeasureAdapters(const AdapterBenchOptions& options) {
  std::mt19937_64 random(7);
  const AdapterSpec spec = RandomSpec(options, random);
  LC_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::Make(spec));
  const BlasThreads one_thread(1);  // as many as our side uses
  const int n = static_cast<int>(options.rows), d = options.dimension, width = options.width;
  const std::size_t dimension = static_cast<std::size_t>(d);
  const std::vector<float> rows = RandomNumbers(options.rows * dimension, 0.2f, random);
  std::vector<float> out(rows.size()), hidden(options.rows * static_cast<std::size_t>(width));
  std::vector<double> item, blas, share, query;
  for (int round = 0; round <= options.rounds; ++round) {
    const double rows_here = static_cast<double>(n);
    const double blas_us = MicrosecondsOf([&] {
      BlasProduct(n, width, d, rows.data(), spec.hidden.data(), 0, hidden.data());
      BlasProduct(n, d, d, rows.data(), spec.linear.data(), 0, out.data());
      BlasProduct(n, d, width, hidden.data(), spec.output.data(), 1, out.data());
    });
    const double item_us = MicrosecondsOf([&] { adapter.Apply(rows, out); });
    const double query_us = MicrosecondsOf([&] {
      for (std::size_t i = 0; i < options.rows; ++i) {
        const std::size_t at = i * dimension;
        adapter.ApplyOne(std::span<const float>(rows).subspan(at, dimension),
                         std::span<float>(out).subspan(at, dimension));
      }
    });
    if (round == 0) continue;  // pages and caches warm up
    item.push_back(item_us / rows_here);
    blas.push_back(blas_us / rows_here);
    share.push_back(blas_us / item_us);
    query.push_back(query_us / rows_here);
  }
  AdapterFigures figures;
  figures.item_us = Median(item);
  figures.blas_us = Median(blas);
  figures.share = Median(share);
  figures.share_spread = Spread(share);
  figures.query_us = Median(query);
  figures.target = std::string(KernelTargetName(ActiveKernelTarget()));
  return figures;
}

absl::StatusOr<double> MeasureAdapterFit(int64_t pairs, int dimension) {
  AdaptOptions options;
  options.source = {Metric::kLorentz, dimension, 1.0, 1.0};
  options.target = {Metric::kLorentz, dimension, 1.0, 1.2};
  options.loss = "reg+rel";
  options.patience = options.steps;
  constexpr int64_t kClasses = 100;
  const std::size_t d = static_cast<std::size_t>(dimension), n = static_cast<std::size_t>(pairs);
  Rng rng(3);
  std::vector<float> centres(2 * kClasses * d);
  for (float& value : centres) value = static_cast<float>(rng.Normal() / std::sqrt(static_cast<double>(dimension)));
  std::vector<float> source(n * d), target(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t label = i % kClasses;
    for (std::size_t j = 0; j < d; ++j) {
      const double noise = 0.05 * rng.Normal();
      source[i * d + j] = static_cast<float>(centres[label * d + j] + noise);
      target[i * d + j] = static_cast<float>(centres[(kClasses + label) * d + j] + noise);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  LC_RETURN_IF_ERROR(FitAdapter({source, target, {}, {}}, options).status());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

namespace {

// One map's candidate beside the products of its shape. A kernel's exponentials are no part of the peer, so it has no
// goal.
Figure ItemFigure(const AdapterBenchOptions& shape, const AdapterFigures& figures) {
  const bool kernel = shape.kind == AdapterKind::kKernel;
  Figure figure;
  figure.name = StrCat("item adapter ", AdapterKindName(shape.kind), " ", shape.dimension, "-", shape.width, "-",
                       shape.dimension, " (", figures.target, "), a candidate");
  figure.value = figures.item_us;
  figure.unit = "us";
  figure.peer = "BLAS products of the same shapes, one thread";
  figure.peer_value = figures.blas_us;
  figure.ratio = figures.share;
  figure.spread = figures.share_spread;
  if (kernel) return figure;
  figure.goal = "peer / ours >= 0.7";
  figure.met = figures.share >= 0.7;
  return figure;
}

}  // namespace

absl::Status BenchAdapters(const BenchOptions& options, Report& report) {
  AdapterBenchOptions shape;
  shape.dimension = options.dimension;
  LC_ASSIGN_OR_RETURN(const AdapterFigures figures, MeasureAdapters(shape));
  report.Add(ItemFigure(shape, figures));
  constexpr double kQueryMax = 10;
  report.Add({.name = StrCat("query adapter ", shape.dimension, "-", shape.width, "-", shape.dimension, ", a query"),
              .value = figures.query_us,
              .unit = "us",
              .peer = "an item adapter in batches",
              .peer_value = figures.item_us,
              .ratio = figures.query_us / figures.item_us,
              .goal = "value <= 10",
              .met = figures.query_us <= kQueryMax});
  for (const AdapterKind kind : {AdapterKind::kResidualMlp, AdapterKind::kKernel}) {
    AdapterBenchOptions usual = shape;
    usual.kind = kind;
    usual.width = WidthFor(kind, AdapterDirection::kItem);
    LC_ASSIGN_OR_RETURN(const AdapterFigures of_usual, MeasureAdapters(usual));
    report.Add(ItemFigure(usual, of_usual));
  }
  constexpr int64_t kPairs = 50'000;
  constexpr double kFitMax = 120;
  LC_ASSIGN_OR_RETURN(const double seconds, MeasureAdapterFit(kPairs, options.dimension));
  report.AddAtMost(StrCat("fit of an adapter to ", kPairs, " pairs, reg+rel"), seconds, "s", kFitMax);
  return absl::OkStatus();
}

}  // namespace lightcone::bench
