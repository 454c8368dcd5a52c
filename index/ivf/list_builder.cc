#include "index/ivf/list_builder.h"

#include <faiss/Clustering.h>
#include <faiss/Index.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/dcheck.h"
#include "base/status.h"
#include "geometry/bound_query.h"
#include "geometry/kernels.h"
#include "index/rows/measured_recall.h"
#include "index/rows/segment.h"

namespace lightcone {
namespace {

constexpr int64_t kTrainingRowsAList = 64, kRoughRowsAList = 24;
constexpr int kIterations = 10, kRoughIterations = 4;
constexpr int64_t kPointsABatch = 64;  // scored against a tile of centres that stays in the cache
constexpr int64_t kCentresATile = 512;
constexpr int64_t kBatchesBetweenChecks = 16;
constexpr int64_t kRowsToLeaveSomeOut = 1'024;

struct Stopped {};  // thrown through FAISS

// Points of d + 1 numbers whose nearness is one inner product, so that one k-means serves every geometry: a point x is
// nearest to the centre c with the largest <Asked(x), c>. Centres are means of points, put back onto their surface.
//   Lorentz        x = (space, time);  asked (space, -time): the Lorentz product. A centre is scaled onto the
//                  hyperboloid: the Lorentz centroid (Law et al., ICML 2019)
//   cosine         x = (z / |z|, 0);  a centre is scaled to norm 1
//   inner product  x = (z, sqrt(M^2 - |z|^2)) / M with M the largest norm (spec 8.1);  a centre is scaled to norm 1
//   Euclid         x = ((z - m) / R, 0) with m the mean and R the largest distance from it;  asked (.., -1/2), and a
//                  centre's last number is its squared norm
class Points {
 public:
  Points(const Space& space, int64_t rows, absl::FunctionRef<RowValues(int64_t)> row)
      : space_(space), row_(row), dimension_(static_cast<size_t>(space.dimension)), mean_(dimension_, 0.0) {
    if (space.metric == Metric::kEuclidean) {
      for (int64_t i = 0; i < rows; ++i) {
        const std::span<const float> z = row(i).z;
        for (size_t j = 0; j < dimension_; ++j) mean_[j] += double{z[j]} / static_cast<double>(rows);
      }
    }
    if (space.metric == Metric::kLorentz || space.metric == Metric::kCosine) return;
    double largest = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const std::span<const float> z = row(i).z;
      double square = 0;
      for (size_t j = 0; j < dimension_; ++j) square += (z[j] - mean_[j]) * (z[j] - mean_[j]);
      largest = std::max(largest, square);
    }
    if (largest > 0) unit_ = std::sqrt(largest);
  }

  size_t width() const { return dimension_ + 1; }

  void Write(int64_t i, float* x) const {
    const RowValues row = row_(i);
    const double scale = double{row.factors.scale} / unit_;
    double square = 0;
    for (size_t j = 0; j < dimension_; ++j) {
      const double value = scale * (row.z[j] - mean_[j]);
      x[j] = static_cast<float>(value);
      square += value * value;
    }
    x[dimension_] = 0;
    if (space_.metric == Metric::kLorentz) x[dimension_] = row.factors.bias;
    if (space_.metric == Metric::kInnerProduct) {
      x[dimension_] = static_cast<float>(std::sqrt(std::max(0.0, 1 - square)));
    }
  }

  void TurnAsked(float* x) const {
    if (space_.metric == Metric::kLorentz) x[dimension_] = -x[dimension_];
    if (space_.metric == Metric::kEuclidean) x[dimension_] = -0.5f;
  }

  void PutBack(float* centre) const {
    double square = 0;
    for (size_t j = 0; j < dimension_; ++j) square += double{centre[j]} * double{centre[j]};
    const double last = centre[dimension_];
    if (space_.metric == Metric::kEuclidean) {
      centre[dimension_] = static_cast<float>(square);
      return;
    }
    const bool lorentz = space_.metric == Metric::kLorentz;
    const double length = lorentz ? space_.curvature * (last * last - square) : square + last * last;
    if (!(length > 0)) return;  // rounding, or a mean of opposite points: as good a centre as any
    for (size_t j = 0; j <= dimension_; ++j) centre[j] = static_cast<float>(centre[j] / std::sqrt(length));
  }

  // As BoundQuery scores a row of the segment (row_factors.h): into h, `dimension` floats.
  RowFactors AsRow(const float* centre, float* h) const {
    double square = 0;
    for (size_t j = 0; j < dimension_; ++j) {
      h[j] = static_cast<float>(unit_ * double{centre[j]} + mean_[j]);
      square += double{h[j]} * double{h[j]};
    }
    if (space_.metric == Metric::kLorentz) return {1, centre[dimension_]};
    return {1, space_.metric == Metric::kEuclidean ? static_cast<float>(square) : 0};
  }

 private:
  const Space space_;
  const absl::FunctionRef<RowValues(int64_t)> row_;
  const size_t dimension_;
  std::vector<double> mean_;
  double unit_ = 1;
};

// Centres as FAISS's k-means wants them: it adds means, and asks which is nearest to each point.
class CentreIndex final : public faiss::Index {
 public:
  CentreIndex(const Points& points, int threads, const std::function<bool()>& stop)
      : faiss::Index(static_cast<int64_t>(points.width()), faiss::METRIC_INNER_PRODUCT),
        points_(points),
        space_{Metric::kInnerProduct, static_cast<int>(points.width())},
        threads_(threads),
        stop_(stop) {}

  void reset() override {
    centres_.clear();
    ntotal = 0;
  }

  void add(int64_t n, const float* x) override {
    const size_t width = points_.width();
    for (int64_t i = 0; i < n; ++i) {
      centres_.insert(centres_.end(), x + static_cast<size_t>(i) * width, x + static_cast<size_t>(i + 1) * width);
      points_.PutBack(&centres_[centres_.size() - width]);
    }
    ntotal += n;
    ones_.assign(static_cast<size_t>(ntotal), {1, 0});
  }

  void search(int64_t n, const float* x, int64_t, float* distances, int64_t* labels,
              const faiss::SearchParameters* = nullptr) const override {
    const size_t width = points_.width();
    Nearest(
        n, [&](int64_t i, float* to) { std::memcpy(to, x + static_cast<size_t>(i) * width, width * sizeof(float)); },
        [&](int64_t i, float score, int64_t label) {
          distances[i] = score;
          labels[i] = label;
        });
  }

  // found(i, score, centre) of every point i < n that write(i, floats) gives; from several threads.
  template <typename Write, typename Found>
  void Nearest(int64_t n, const Write& write, const Found& found) const {
    const int64_t batches = (n + kPointsABatch - 1) / kPointsABatch;
    std::atomic<int64_t> next = 0;
    std::atomic<bool> stopped = false, failed = false;
    const auto work = [&] {
      try {
        for (int64_t batch = next++; batch < batches && !stopped; batch = next++) {
          if (batch % kBatchesBetweenChecks == 0 && stop_()) stopped = true;
          const int64_t begin = batch * kPointsABatch;
          OneBatch(begin, std::min(n, begin + kPointsABatch), write, found);
        }
      } catch (const std::bad_alloc&) {
        failed = stopped = true;
      }
    };
    std::vector<std::thread> helpers;
    try {
      for (int t = 1; t < std::min<int64_t>(threads_, batches); ++t) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // Fewer threads do the work.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failed) throw std::bad_alloc();
    if (stopped) throw Stopped();
  }

  const std::vector<float>& centres() const { return centres_; }

 private:
  template <typename Write, typename Found>
  void OneBatch(int64_t begin, int64_t end, const Write& write, const Found& found) const {
    const size_t width = points_.width();
    std::vector<BoundQuery> queries;
    std::vector<float> asked(width);
    std::vector<int64_t> whose;
    for (int64_t i = begin; i < end; ++i) {
      write(i, asked.data());
      points_.TurnAsked(asked.data());
      absl::StatusOr<BoundQuery> query = BoundQuery::Make(space_, space_, asked);
      if (query.ok()) {  // The norm is in the range of the kernels.
        queries.push_back(std::move(*query));
        whose.push_back(i);
      } else {
        found(i, 0.0f, 0);
      }
    }
    std::vector<float> best(queries.size(), -std::numeric_limits<float>::infinity());
    std::vector<int64_t> label(queries.size(), 0);
    std::vector<float> scores(queries.size() * kCentresATile);
    const QueryBatch batch{std::span<const BoundQuery>(queries)};
    for (int64_t tile = 0; tile < ntotal; tile += kCentresATile) {
      const int64_t count = std::min(kCentresATile, ntotal - tile);
      ScoreRowsBatch(batch, &centres_[static_cast<size_t>(tile) * width], width, &ones_[static_cast<size_t>(tile)],
                     static_cast<size_t>(count), scores.data(), kCentresATile);
      for (size_t q = 0; q < queries.size(); ++q) {
        const float* const of = &scores[q * kCentresATile];
        const float* const nearest = std::max_element(of, of + count);
        if (!(*nearest > best[q])) continue;
        best[q] = *nearest;
        label[q] = tile + (nearest - of);
      }
    }
    for (size_t q = 0; q < queries.size(); ++q) found(whose[q], best[q], label[q]);
  }

  const Points& points_;
  const Space space_;
  const int threads_;
  const std::function<bool()>& stop_;
  std::vector<float> centres_;
  std::vector<RowFactors> ones_;
};

// Every so many rows; not those by which recall is measured later, where there are others to take: a centre that a row
// helped to place lies nearer to it than to a query.
std::vector<float> TrainingPoints(const Points& points, int64_t rows, int64_t wanted) {
  const int64_t n = std::min(rows, wanted);
  std::vector<int64_t> left_out;
  if (rows >= kRowsToLeaveSomeOut) left_out = CalibrationRows(rows);
  std::vector<float> sample(static_cast<size_t>(n) * points.width());
  for (int64_t i = 0; i < n; ++i) {
    int64_t row = i * rows / n;
    if (std::binary_search(left_out.begin(), left_out.end(), row))
      ++row;  // no two of them are neighbours, none is last
    points.Write(row, &sample[static_cast<size_t>(i) * points.width()]);
  }
  return sample;
}

Partition Cluster(const Space& space, int64_t rows, absl::FunctionRef<RowValues(int64_t)> row, int64_t lists,
                  const ListSettings& settings, const std::function<bool()>& stop) {
  const int threads = settings.threads;
  const int64_t training_rows = settings.rough ? kRoughRowsAList : kTrainingRowsAList;
  const Points points(space, rows, row);
  CentreIndex index(points, threads, stop);
  faiss::ClusteringParameters parameters;
  parameters.niter = settings.rough ? kRoughIterations : kIterations;
  parameters.min_points_per_centroid = 1;  // fewer than its default are no reason to warn on the terminal
  parameters.max_points_per_centroid = static_cast<int>(training_rows);
  const std::vector<float> sample = TrainingPoints(points, rows, lists * training_rows);
  omp_set_num_threads(threads);  // setting of this thread alone
  faiss::Clustering clustering(static_cast<int>(points.width()), static_cast<int>(lists), parameters);
  clustering.train(static_cast<int64_t>(sample.size() / points.width()), sample.data(), index);
  index.reset();
  index.add(lists, clustering.centroids.data());

  Partition partition;
  partition.list_of.resize(static_cast<size_t>(rows));
  index.Nearest(
      rows, [&](int64_t i, float* to) { points.Write(i, to); },
      [&](int64_t i, float, int64_t list) { partition.list_of[static_cast<size_t>(i)] = static_cast<uint32_t>(list); });
  const size_t stride = StrideOf(space.dimension);
  partition.centres.assign(static_cast<size_t>(lists) * stride, 0.0f);
  for (size_t i = 0; i < static_cast<size_t>(lists); ++i) {
    partition.factors.push_back(points.AsRow(&index.centres()[i * points.width()], &partition.centres[i * stride]));
  }
  return partition;
}

}  // namespace

uint32_t DefaultLists(int64_t rows) {
  return static_cast<uint32_t>(std::clamp<int64_t>(std::llround(3 * std::sqrt(static_cast<double>(rows))), 1, 1 << 16));
}

absl::StatusOr<Partition> PartitionRows(const Space& space, int64_t rows, absl::FunctionRef<RowValues(int64_t)> row,
                                        const ListSettings& settings, const std::function<bool()>& stop) {
  LC_DCHECK(rows >= 1 && rows < int64_t{1} << 31);
  const int64_t lists = std::min<int64_t>(rows, settings.lists > 0 ? settings.lists : DefaultLists(rows));
  try {
    return Cluster(space, rows, row, lists, settings, stop);
  } catch (const Stopped&) {
    return MakeStatus(absl::StatusCode::kCancelled, "list build stopped");
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for lists of ", rows, " rows"));
  }
}

}  // namespace lightcone
