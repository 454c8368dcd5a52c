// Bytes a vector of a graph that is walked by int8 codes, its float32 vectors left on the disk, beside hnswlib's; and
// what that costs in recall.
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/graph_peers.h"
#include "bench/index_world.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kQueries = 1'000;
constexpr int kK = 10;
constexpr int kEf = 32;

// Resident bytes of the mapped files of a folder, by file name; from /proc/self/smaps.
absl::StatusOr<std::map<std::string, int64_t>> ResidentBytes(const std::string& folder) {
  std::ifstream smaps("/proc/self/smaps");
  if (!smaps) return Internal("cannot read /proc/self/smaps");
  std::map<std::string, int64_t> bytes;
  std::string line, file;
  while (std::getline(smaps, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos && first.back() != ':') {  // a mapping begins
      const size_t at = line.find(folder);
      file = at == std::string::npos ? "" : line.substr(line.rfind('/') + 1);
    } else if (first == "Rss:" && !file.empty()) {
      int64_t kib = 0;
      words >> kib;
      bytes[file] += kib * 1024;
    }
  }
  return bytes;
}

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

using Ids = std::vector<uint64_t>;

absl::StatusOr<std::vector<Ids>> SearchAll(const IndexWorld& world, std::span<const float> queries, int dimension,
                                           const IndexWorld::Ask& ask) {
  std::vector<Ids> found;
  for (int64_t q = 0; q < kQueries; ++q) {
    const auto query = queries.subspan(static_cast<size_t>(q * dimension), static_cast<size_t>(dimension));
    LC_ASSIGN_OR_RETURN(const SearchResult result, world.Search(query, ask));
    Ids& ids = found.emplace_back();
    for (const SearchHit& hit : result.hits) ids.push_back(hit.internal_id);
  }
  return found;
}

double Recall(const std::vector<Ids>& truth, const std::vector<Ids>& found) {
  int64_t hits = 0;
  for (size_t q = 0; q < truth.size(); ++q) {
    for (const uint64_t id : found[q]) hits += std::count(truth[q].begin(), truth[q].end(), id);
  }
  return static_cast<double>(hits) / static_cast<double>(kQueries * kK);
}

}  // namespace

absl::Status BenchMemory(const BenchOptions& options, Report& report) {
  const int d = options.dimension;
  const Space space{Metric::kEuclidean, d, 1.0, 1.0};
  const std::vector<float> data = ClusteredVectors(options.items + kQueries, d, 500, 0.7, 32);
  const std::span<const float> rows = std::span<const float>(data).first(static_cast<size_t>(options.items * d));
  const std::span<const float> queries = std::span<const float>(data).subspan(rows.size());
  const double items = static_cast<double>(options.items);

  const int64_t before = HeapBytes();
  const std::unique_ptr<GraphPeer> peer = MakeHnswlib();
  peer->Build(rows, d, {});
  const double peer_bytes = static_cast<double>(HeapBytes() - before) / items;

  IndexSettings settings;
  settings.build_threads = 2;
  double recall[2];
  std::vector<Ids> truth;
  for (const RowCodes codes : {RowCodes::kFloat32, RowCodes::kInt8}) {
    settings.codes = codes;
    const std::string folder = options.folder + (codes == RowCodes::kInt8 ? "/int8" : "/float32");
    LC_RETURN_IF_ERROR(IndexWorld::Build(folder, space, settings, rows).status());
    // Opened again: nothing is resident but what searches touch.
    LC_ASSIGN_OR_RETURN(const auto world, IndexWorld::Open(folder, space, settings));
    if (codes == RowCodes::kFloat32) {
      LC_ASSIGN_OR_RETURN(truth, SearchAll(*world, queries, d, {.k = kK, .exact = true}));
    }
    LC_ASSIGN_OR_RETURN(const std::vector<Ids> found, SearchAll(*world, queries, d, {.k = kK, .ef = kEf}));
    recall[codes == RowCodes::kInt8 ? 1 : 0] = Recall(truth, found);
    if (codes == RowCodes::kFloat32) continue;
    LC_ASSIGN_OR_RETURN(auto resident, ResidentBytes(folder));
    const double vectors = static_cast<double>(resident["vectors.f32"]) / items;
    resident.erase("vectors.f32");
    double bytes = 0;
    for (const auto& [file, of_file] : resident) bytes += static_cast<double>(of_file) / items;
    const double mapped = static_cast<double>(world->mapped_bytes()) / items;
    char note[128];
    std::snprintf(note, sizeof(note), "; %.0f B of its files are mapped, %.0f B of vectors.f32 touched", mapped,
                  vectors);
    report.Add({.name = StrCat("resident bytes a vector, int8 graph, vectors on disk", note),
                .value = bytes,
                .unit = "B",
                .peer = "hnswlib",
                .peer_value = peer_bytes,
                .ratio = bytes / peer_bytes,
                .goal = "ratio <= 0.6",
                .met = bytes / peer_bytes <= 0.6});
  }
  report.Add({.name = StrCat("recall@10 of that graph after re-rank, ef ", kEf),
              .value = recall[1],
              .unit = "share",
              .peer = "a graph walked by float32",
              .peer_value = recall[0],
              .ratio = recall[1] / recall[0],
              .goal = "value >= peer - 0.005",
              .met = recall[1] >= recall[0] - 0.005});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
