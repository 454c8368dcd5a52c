#include "index/graph/graph_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "geometry/code_kernels.h"
#include "geometry/kernels.h"
#include "index/graph/graph.h"
#include "index/graph/graph_inserter.h"

namespace lightcone {
namespace {

// Inner products of rows in h_space (codes.h), by their vectors or by their codes.
class FloatPoints {
 public:
  FloatPoints(const RowBlock& block, const Space& space)
      : block_(block),
        dimension_(static_cast<size_t>(space.dimension)),
        euclidean_(space.metric == Metric::kEuclidean) {}
  // Of Euclid's space, half the negative squared distance: the inner product around row x. Products around the origin
  // would cancel where rows lie far from it.
  void Dots(uint32_t x, const uint32_t* ids, size_t n, float* dots) const {
    const float* const row = Row(x);
    for (size_t i = 0; i < n && i < kAhead; ++i) AskFor(ids[i]);
    for (size_t i = 0; i < n; ++i) {
      if (i + kAhead < n) AskFor(ids[i + kAhead]);
      dots[i] = euclidean_ ? -SquaredGap(row, Row(ids[i]), dimension_) / 2
                           : block_.factors[x].scale * block_.factors[ids[i]].scale * Dot(row, Row(ids[i]), dimension_);
    }
  }

 private:
  static constexpr size_t kAhead = 4;
  const float* Row(uint32_t row) const { return block_.rows + row * block_.stride; }
  void AskFor(uint32_t row) const { Prefetch(Row(row), std::min<size_t>(dimension_, 256) * sizeof(float)); }

  const RowBlock block_;
  const size_t dimension_;
  const bool euclidean_;
};

class CodedPoints {
 public:
  // In Euclid's space around the centre, where differences are what they are around the origin.
  CodedPoints(const CodeBlock& block, const Space& space, int64_t rows) : block_(block), dimension_(space.dimension) {
    if (space.metric == Metric::kEuclidean) return;
    double square = 0;
    for (int i = 0; i < dimension_; ++i) square += double{block.centre[i]} * double{block.centre[i]};
    along_.resize(static_cast<size_t>(rows));
    std::vector<float> around(static_cast<size_t>(dimension_));
    for (size_t row = 0; row < along_.size(); ++row) {
      DecodeRow(block.kind, dimension_, block.rows + row * block.stride, around.data());
      double dot = 0;
      for (int i = 0; i < dimension_; ++i) dot += double{block.centre[i]} * double{around[static_cast<size_t>(i)]};
      along_[row] = static_cast<float>(dot + square / 2);
    }
  }
  void Dots(uint32_t x, const uint32_t* ids, size_t n, float* dots) const {
    DotCodesGathered(block_.kind, block_.rows + x * block_.stride, block_.rows, block_.stride, dimension_, ids, n,
                     dots);
    if (along_.empty()) return;
    for (size_t i = 0; i < n; ++i) dots[i] += along_[x] + along_[ids[i]];
  }

 private:
  const CodeBlock block_;
  const int dimension_;
  std::vector<float> along_;  // <m, r'> + |m|^2 / 2 of each row; empty: around the centre
};

// How near two rows are, in the order of their space: of points h_i as coded, whose times and norms are those of the
// codes, so that what coding loses moves points a little and tears none from the surface.
//   Lorentz        <h_i, h_j>_L = <s_i, s_j> - t_i t_j
//   cosine         cos
//   inner product  half the squared distance after the lift to L2 (spec 8.1: append sqrt(M^2 - |z|^2)), negated, less a
//                  constant: neighbours chosen by it form a graph in which inner-product queries find their way
//   Euclidean      -|z_i - z_j|^2
template <typename Points>
class PairScores {
 public:
  PairScores(const Space& space, const Points& points, int64_t rows)
      : points_(points), metric_(space.metric), own_(static_cast<size_t>(rows)) {
    float largest = 0;
    for (uint32_t i = 0; i < own_.size(); ++i) {
      points_.Dots(i, &i, 1, &own_[i]);
      largest = std::max(largest, own_[i]);
    }
    largest_norm_ = std::sqrt(largest);
    for (float& own : own_) own = Own(space, own, largest_norm_);
  }

  void operator()(uint32_t x, const uint32_t* ids, size_t n, float* scores) const {
    points_.Dots(x, ids, n, scores);
    const float own = own_[x];
    switch (metric_) {
      case Metric::kLorentz:
        for (size_t i = 0; i < n; ++i) scores[i] -= own * own_[ids[i]];
        return;
      case Metric::kCosine:
        for (size_t i = 0; i < n; ++i) scores[i] *= own * own_[ids[i]];
        return;
      case Metric::kInnerProduct:
        for (size_t i = 0; i < n; ++i) scores[i] += own * own_[ids[i]] - largest_norm_ * (own + own_[ids[i]]);
        return;
      case Metric::kEuclidean:
        for (size_t i = 0; i < n; ++i) scores[i] = 2 * scores[i] - own - own_[ids[i]];
        return;
    }
  }

  float norm_squared(uint32_t x) const {
    float square = 0;
    points_.Dots(x, &x, 1, &square);
    return square;
  }

  // As near to each as it is to itself.
  bool AreCopies(uint32_t x, uint32_t y, float score) const { return score >= OfItself(x) && score >= OfItself(y); }

 private:
  float OfItself(uint32_t x) const {
    float score = 0;
    (*this)(x, &x, 1, &score);
    return score;
  }

  // Time, inverse norm, what the lift lacks of the largest norm, squared norm.
  static float Own(const Space& space, float square, float largest_norm) {
    switch (space.metric) {
      case Metric::kLorentz:
        return static_cast<float>(std::sqrt(1 / space.curvature + double{square}));
      case Metric::kCosine:
        return square > 0 ? 1 / std::sqrt(square) : 0;
      case Metric::kInnerProduct:
        return square > 0 ? square / (largest_norm + std::sqrt(std::max(0.0f, largest_norm * largest_norm - square)))
                          : 0;
      case Metric::kEuclidean:
        return square;
    }
    return 0;
  }

  const Points points_;
  const Metric metric_;
  float largest_norm_ = 0;
  std::vector<float> own_;  // a row each
};

template <typename Points>
absl::StatusOr<std::string> Build(const Space& space, const Points& points, int64_t rows, const GraphSettings& settings,
                                  const std::function<bool()>& stop) {
  try {
    const PairScores<Points> scores(space, points, rows);
    const auto is_copy = [&](uint32_t x, uint32_t y, float score) { return scores.AreCopies(x, y, score); };
    GraphInserter inserter(rows, settings.m, settings.ef_construction, scores, is_copy);
    if (!inserter.InsertAll(settings.threads, stop)) {
      return MakeStatus(absl::StatusCode::kCancelled, "graph build stopped");
    }
    return inserter.Take();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for a graph of ", rows, " rows"));
  } catch (const std::system_error& e) {
    return ResourceExhausted(StrCat("no thread for a graph of ", rows, " rows: ", e.what()));
  }
}

constexpr size_t kLongestRows = 32;     // entries of inner products
constexpr size_t kRowsApart = 32;       // entries far from one another
constexpr int64_t kEntrySample = 4096;  // rows among which those are chosen

// Farthest-first traversal (Gonzalez 1985) of a sample.
template <typename Points>
std::vector<uint32_t> Entries(const Space& space, const Points& points, int64_t rows) {
  const PairScores<Points> scores(space, points, rows);
  std::vector<uint32_t> chosen;
  if (space.metric == Metric::kInnerProduct) {
    std::vector<std::pair<float, uint32_t>> longest;
    for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row)
      longest.emplace_back(-scores.norm_squared(row), row);
    const size_t n = std::min(kLongestRows, longest.size());
    std::partial_sort(longest.begin(), longest.begin() + static_cast<ptrdiff_t>(n), longest.end());
    for (size_t i = 0; i < n; ++i) chosen.push_back(longest[i].second);
  }
  const int64_t step = std::max<int64_t>(1, rows / kEntrySample);
  std::vector<uint32_t> sample;
  for (int64_t row = 0; row < rows; row += step) sample.push_back(static_cast<uint32_t>(row));
  std::vector<float> nearest(sample.size(), -std::numeric_limits<float>::infinity()), score(sample.size());
  uint32_t next = sample[0];
  for (size_t apart = 0; apart < std::min(kRowsApart, sample.size()); ++apart) {
    if (std::find(chosen.begin(), chosen.end(), next) == chosen.end()) chosen.push_back(next);
    scores(next, sample.data(), sample.size(), score.data());
    for (size_t i = 0; i < sample.size(); ++i) nearest[i] = std::max(nearest[i], score[i]);
    next = sample[static_cast<size_t>(std::min_element(nearest.begin(), nearest.end()) - nearest.begin())];
  }
  return chosen;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ChooseEntries(const Space& space, const RowBlock& block, const CodeBlock* codes,
                                                    int64_t rows) {
  LC_DCHECK(rows >= 1 && rows <= int64_t{Graph::kRowsMax});
  static_assert(kLongestRows + kRowsApart <= Graph::kEntriesMax);
  try {
    if (codes != nullptr) return Entries(space, CodedPoints(*codes, space, rows), rows);
    return Entries(space, FloatPoints(block, space), rows);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for the entries of a graph of ", rows, " rows"));
  }
}

absl::StatusOr<std::string> BuildGraph(const Space& space, const RowBlock& block, const CodeBlock* codes, int64_t rows,
                                       const GraphSettings& settings, const std::function<bool()>& stop) {
  LC_DCHECK(rows >= 1 && rows <= int64_t{Graph::kRowsMax});
  if (codes != nullptr) return Build(space, CodedPoints(*codes, space, rows), rows, settings, stop);
  return Build(space, FloatPoints(block, space), rows, settings, stop);
}

}  // namespace lightcone
