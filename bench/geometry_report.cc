// The geodesic kernel beside a plain AVX read of the same bytes.
#include "bench/benches.h"
#include "bench/geometry_bench.h"

namespace lightcone::bench {

absl::Status BenchGeometry(const BenchOptions&, Report& report) {
  const GeometryFigures figures = MeasureGeometry();
  report.Add({.name = "score kernel, 1 query x 100k x 128 float32",
              .value = figures.kernel_gib_per_s,
              .unit = "GiB/s",
              .peer = "plain AVX read of the same bytes",
              .peer_value = figures.plain_read_gib_per_s,
              .ratio = figures.kernel_share_of_read,
              .goal = "ratio >= 0.8",
              .met = figures.kernel_share_of_read >= 0.8,
              .spread = figures.share_spread});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
