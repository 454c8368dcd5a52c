// Any bytes: a graph is refused, or a walk over it stays inside it and ends.
#include <cstdint>
#include <cstring>
#include <vector>

#include "index/graph/graph.h"
#include "index/graph/graph_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(lightcone::Graph::Header)) return 0;
  std::vector<uint32_t> aligned(size / 4 + 1);
  std::memcpy(aligned.data(), data, size);
  const uint32_t rows = aligned[2];
  const auto graph = lightcone::Graph::Parse({reinterpret_cast<const char*>(aligned.data()), size}, rows);
  if (!graph.ok()) return 0;
  const lightcone::Space space{lightcone::Metric::kEuclidean, 1};
  const std::vector<float> vectors(rows, 1.0f);
  const std::vector<lightcone::RowFactors> factors(rows, lightcone::FactorsOf(space, {vectors.data(), 1}));
  lightcone::RowBlock block;
  block.rows = vectors.data();
  block.stride = 1;
  block.factors = factors.data();
  const auto query = lightcone::BoundQuery::Make(space, space, {vectors.data(), 1});
  (void)lightcone::WalkGraph(
      *graph, lightcone::ScoredRows{block, *query}, {8, 1'000'000}, [](uint32_t row) { return row % 2 == 0; },
      [] { return absl::OkStatus(); });
  (void)graph->Check();
  return 0;
}
