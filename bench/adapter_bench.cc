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

int OutputOf(const AdapterBenchOptions& options) {
  return options.output_dimension == 0 ? options.dimension : options.output_dimension;
}

AdapterSpec RandomSpec(const AdapterBenchOptions& options, std::mt19937_64& random) {
  const std::size_t d = static_cast<std::size_t>(options.dimension), width = static_cast<std::size_t>(options.width);
  const std::size_t out = static_cast<std::size_t>(OutputOf(options));
  AdapterSpec spec;
  spec.direction = options.direction;
  spec.kind = options.kind;
  spec.input_dimension = options.dimension;
  spec.target = {Metric::kLorentz, OutputOf(options), 1.0, 1.2};
  spec.width = options.width;
  spec.linear = RandomNumbers(out * d, 0.1f, random);
  spec.offset = RandomNumbers(out, 0.1f, random);
  if (options.kind == AdapterKind::kAffine) return spec;
  spec.hidden = RandomNumbers(width * d, 0.1f, random);
  if (options.kind == AdapterKind::kKernel) {
    spec.input_radius = 1;
    spec.sharpness = 0.25f;
  } else {
    spec.hidden_offset = RandomNumbers(width, 0.1f, random);
  }
  spec.output = RandomNumbers(out * width, 0.1f, random);
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
  const int d = options.dimension, out_d = OutputOf(options), width = options.width;
  const std::size_t in = static_cast<std::size_t>(d), out = static_cast<std::size_t>(out_d);
  const std::vector<float> rows = RandomNumbers(options.rows * in, 0.2f, random);
  std::vector<float> outputs(options.rows * out), hidden(options.rows * static_cast<std::size_t>(width));
  const auto products = [&](int n, const float* from) {
    if (width > 0) BlasProduct(n, width, d, from, spec.hidden.data(), 0, hidden.data());
    BlasProduct(n, out_d, d, from, spec.linear.data(), 0, outputs.data());
    if (width > 0) BlasProduct(n, out_d, width, hidden.data(), spec.output.data(), 1, outputs.data());
  };
  std::vector<double> item, blas, share, query, blas_query;
  for (int round = 0; round <= options.rounds; ++round) {
    const double rows_here = static_cast<double>(options.rows);
    const double blas_us = MicrosecondsOf([&] { products(static_cast<int>(options.rows), rows.data()); });
    const double item_us = MicrosecondsOf([&] { adapter.Apply(rows, outputs); });
    const double query_us = MicrosecondsOf([&] {
      for (std::size_t i = 0; i < options.rows; ++i) {
        adapter.ApplyOne(std::span<const float>(rows).subspan(i * in, in),
                         std::span<float>(outputs).subspan(i * out, out));
      }
    });
    const double blas_query_us = MicrosecondsOf([&] {
      for (std::size_t i = 0; i < options.rows; ++i) products(1, &rows[i * in]);
    });
    if (round == 0) continue;  // pages and caches warm up
    item.push_back(item_us / rows_here);
    blas.push_back(blas_us / rows_here);
    share.push_back(blas_us / item_us);
    query.push_back(query_us / rows_here);
    blas_query.push_back(blas_query_us / rows_here);
  }
  AdapterFigures figures;
  figures.item_us = Median(item);
  figures.blas_us = Median(blas);
  figures.share = Median(share);
  figures.share_spread = Spread(share);
  figures.query_us = Median(query);
  figures.blas_query_us = Median(blas_query);
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

// Query adapters between text models.
struct TextShape {
  AdapterKind kind;
  int dimension, output_dimension, width;
  double most_us;  // 0: no goal
};
constexpr TextShape kTextShapes[] = {{AdapterKind::kAffine, 768, 768, 0, 10},
                                     {AdapterKind::kAffine, 3072, 1536, 0, 20},
                                     {AdapterKind::kKernel, 768, 768, 4096, 0}};

absl::Status MeasureTextQuery(const TextShape& text, Report& report) {
  AdapterBenchOptions shape;
  shape.dimension = text.dimension;
  shape.output_dimension = text.output_dimension;
  shape.kind = text.kind;
  shape.direction = AdapterDirection::kQuery;
  shape.width = text.width;
  shape.rows = 200;
  shape.rounds = 11;
  LC_ASSIGN_OR_RETURN(const AdapterFigures figures, MeasureAdapters(shape));
  Figure figure;
  figure.name = StrCat("query adapter ", AdapterKindName(text.kind), " ", text.dimension,
                       text.width > 0 ? StrCat("-", text.width) : "", "-", text.output_dimension, ", a query");
  figure.value = figures.query_us;
  figure.unit = "us";
  figure.peer = "BLAS products of the same shapes";
  figure.peer_value = figures.blas_query_us;
  figure.ratio = figures.query_us / figures.blas_query_us;
  figure.goal = text.most_us > 0 ? StrCat("value <= ", text.most_us) : "none";
  figure.met = text.most_us == 0 || figures.query_us <= text.most_us;
  report.Add(figure);
  return absl::OkStatus();
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
  for (const TextShape& text : kTextShapes) LC_RETURN_IF_ERROR(MeasureTextQuery(text, report));
  constexpr int64_t kPairs = 50'000;
  constexpr double kFitMax = 120;
  LC_ASSIGN_OR_RETURN(const double seconds, MeasureAdapterFit(kPairs, options.dimension));
  report.AddAtMost(StrCat("fit of an adapter to ", kPairs, " pairs, reg+rel"), seconds, "s", kFitMax);
  return absl::OkStatus();
}

}  // namespace lightcone::bench
