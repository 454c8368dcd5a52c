// Figure 13: exact scans by a CUDA device, for one query against the device's copy bandwidth, and for many together
// against FAISS's flat index on the same device.
#include <cstdio>
#include <limits>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/gpu_peers.h"
#include "bench/index_world.h"
#include "index/gpu/scan_device.h"

namespace lightcone::bench {
namespace {

constexpr int kRounds = 9;
constexpr int64_t kTogether = 1'000;
constexpr int64_t kNearest = 10;

// Rows on the device, and queries that are bound to their space.
struct Gallery {
  std::vector<float> numbers;  // of the rows, then of the queries
  std::vector<RowFactors> factors;
  std::vector<BoundQuery> queries;
  std::shared_ptr<const gpu::DeviceRows> rows;
};

absl::StatusOr<Gallery> MakeGallery(const gpu::ScanDevice& device, int64_t rows, int dimension) {
  const Space space{Metric::kLorentz, dimension, 1.0, 1.2};
  const size_t d = static_cast<size_t>(dimension);
  Gallery gallery;
  gallery.numbers = ClusteredVectors(rows + kTogether, dimension, 500, 0.7, 13);
  const auto row = [&](int64_t i) {
    return std::span<const float>(gallery.numbers).subspan(static_cast<size_t>(i) * d, d);
  };
  for (int64_t i = 0; i < rows; ++i) gallery.factors.push_back(FactorsOf(space, row(i)));
  for (int64_t i = 0; i < kTogether; ++i) {
    LC_ASSIGN_OR_RETURN(BoundQuery query, BoundQuery::Make(space, space, row(rows + i)));
    gallery.queries.push_back(std::move(query));
  }
  const RowBlock block{gallery.numbers.data(), d, gallery.factors.data(), nullptr, nullptr};
  LC_ASSIGN_OR_RETURN(gallery.rows, gpu::DeviceRows::Make(device.budget(), {&space, &block, nullptr, rows},
                                                          device.options().storage, [] { return false; }));
  return gallery;
}

// The median of the rounds, each with queries of its own as far as they go; what the CPU would have to do is counted.
double SecondsOfScans(gpu::ScanDevice& device, const Gallery& gallery, int64_t together, int64_t* incomplete) {
  std::vector<double> seconds;
  for (int64_t round = 0; round <= kRounds; ++round) {
    std::vector<gpu::DeviceQuery> asked;
    for (int64_t i = 0; i < together; ++i) {
      const size_t q = static_cast<size_t>((round * together + i) % kTogether);
      asked.push_back(
          {&gallery.queries[q], kNearest, -std::numeric_limits<double>::infinity(), {{gallery.rows, nullptr}}});
    }
    const double took = SecondsOfQueries(1, 1, [&](int64_t) {
      for (const gpu::DeviceAnswer& answer : device.Scan(asked)) *incomplete += answer.complete ? 0 : 1;
    });
    if (round > 0) seconds.push_back(took);
  }
  return Median(seconds);
}

}  // namespace

absl::Status BenchGpu(const BenchOptions& options, Report& report) {
  auto machine = gpu::OpenCudaMachine();
  if (!machine.ok()) {
    std::printf("figure 13 is not measured: %s\n", MessageOf(machine.status()).c_str());
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const std::shared_ptr<gpu::ScanDevice> device, gpu::ScanDevice::Open(std::move(*machine), {}));
  std::printf("device: %s\n", device->name().c_str());
  LC_ASSIGN_OR_RETURN(const Gallery gallery, MakeGallery(*device, options.gpu_items, options.dimension));
  const std::string shape = StrCat(options.gpu_items, " x ", options.dimension, " as fp16");

  int64_t incomplete = 0;
  const double one = SecondsOfScans(*device, gallery, 1, &incomplete);
  const double bytes = static_cast<double>(gallery.rows->bytes());
  LC_ASSIGN_OR_RETURN(const double copied, CopyBandwidth(gallery.rows->bytes(), kRounds));
  report.Add({.name = StrCat("exact top-10 by a device, ", shape, ", one query (", incomplete, " left to the CPU)"),
              .value = bytes / one / 1e9,
              .unit = "GB/s",
              .peer = "copy on the device, read and written",
              .peer_value = copied / 1e9,
              .ratio = bytes / one / copied,
              .goal = "ratio >= 0.8",
              .met = bytes / one / copied >= 0.8});

  incomplete = 0;
  const double many = SecondsOfScans(*device, gallery, kTogether, &incomplete);
  const size_t rows = static_cast<size_t>(options.gpu_items) * static_cast<size_t>(options.dimension);
  const std::span<const float> numbers(gallery.numbers);
  LC_ASSIGN_OR_RETURN(const std::optional<double> faiss, FaissFlatSeconds(numbers.first(rows), numbers.subspan(rows),
                                                                          options.dimension, kNearest, kRounds));
  report.Add({.name = StrCat("the same, ", kTogether, " queries together (", incomplete, " left to the CPU)"),
              .value = static_cast<double>(kTogether) / many,
              .unit = "queries/s",
              .peer = faiss ? "FAISS, flat, fp16, on the device" : "FAISS was built without CUDA",
              .peer_value = faiss ? static_cast<double>(kTogether) / *faiss : 0,
              .ratio = faiss ? *faiss / many : 0,
              .goal = "ratio >= 1",
              .met = faiss && *faiss >= many});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
