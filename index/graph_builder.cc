#include "index/graph_builder.h"

#include <faiss/IndexHNSW.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/status.h"
#include "geometry/kernels.h"
#include "index/graph.h"

namespace lightcone {
namespace {

// faiss::Index::idx_t up to 1.7, faiss::idx_t from 1.8: both are the type of Index::ntotal.
using Idx = decltype(faiss::Index::ntotal);

constexpr Idx kRowsABatch = 8192;  // between two looks at `stop`

// Row-to-row "distances" whose order is that of the space:
//   Lorentz        -<h_i, h_j>_L = t_i t_j - <s_i, s_j>
//   cosine         -cos
//   inner product  half the squared distance after the lift to L2 (spec 8.1: append sqrt(M^2 - |z|^2)), less a
//   constant:
//                  neighbours chosen by it form a graph in which inner-product queries find their way
//   Euclidean      |z_i - z_j|^2
class RowDistance {
 public:
  RowDistance(const Space& space, const RowBlock& block, int64_t rows)
      : block_(block), metric_(space.metric), dimension_(static_cast<size_t>(space.dimension)) {
    if (metric_ != Metric::kInnerProduct) return;
    float norm_max = 0;
    for (int64_t i = 0; i < rows; ++i) norm_max = std::max(norm_max, block.factors[i].bias);
    lift_.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const double norm = block.factors[i].bias;
      lift_[static_cast<size_t>(i)] =
          static_cast<float>(std::sqrt(std::max(0.0, double{norm_max} * norm_max - norm * norm)));
    }
  }

  float operator()(Idx i, Idx j) const {
    const size_t x = static_cast<size_t>(i), y = static_cast<size_t>(j);
    const RowFactors& f = block_.factors[x];
    const RowFactors& g = block_.factors[y];
    const float dot =
        f.scale * g.scale * Dot(block_.rows + x * block_.stride, block_.rows + y * block_.stride, dimension_);
    switch (metric_) {
      case Metric::kLorentz:
        return f.bias * g.bias - dot;
      case Metric::kCosine:
        return -dot;
      case Metric::kInnerProduct:
        return -dot - lift_[x] * lift_[y];
      case Metric::kEuclidean:
        return f.bias + g.bias - 2 * dot;
    }
    return 0;
  }

  const RowBlock& block() const { return block_; }

 private:
  const RowBlock block_;
  const Metric metric_;
  const size_t dimension_;
  std::vector<float> lift_;
};

struct RowDistanceComputer : faiss::DistanceComputer {
  explicit RowDistanceComputer(const RowDistance* distance) : distance(distance) {}
  // FAISS hands over a pointer to the row that it inserts: a pointer into the block itself.
  void set_query(const float* x) override {
    query = static_cast<Idx>(static_cast<size_t>(x - distance->block().rows) / distance->block().stride);
  }
  float operator()(Idx i) override { return (*distance)(query, i); }
  float symmetric_dis(Idx i, Idx j) override { return (*distance)(i, j); }

  const RowDistance* distance;
  Idx query = 0;
};

// Rows that are there already: "adding" only raises their number.
struct BlockStorage : faiss::Index {
  BlockStorage(int stride, const RowDistance* distance) : faiss::Index(stride, faiss::METRIC_L2), distance(distance) {}
  void add(Idx n, const float*) override { ntotal += n; }
  void reset() override { ntotal = 0; }
  void search(Idx, const float*, Idx, float*, Idx*, const faiss::SearchParameters*) const override {}
  faiss::DistanceComputer* get_distance_computer() const override { return new RowDistanceComputer(distance); }

  const RowDistance* distance;
};

// Links up to the first hole; FAISS may leave holes only at the end of a list.
void CopyLinks(const faiss::HNSW& hnsw, Idx row, int layer, size_t width, int32_t* out) {
  size_t begin = 0, end = 0;
  hnsw.neighbor_range(row, layer, &begin, &end);
  for (size_t i = 0; i < width; ++i) out[i] = begin + i < end ? hnsw.neighbors[begin + i] : -1;
}

std::string Flatten(const faiss::HNSW& hnsw, int64_t rows) {
  Graph::Header header;
  header.rows = static_cast<uint32_t>(rows);
  header.base_width = static_cast<uint32_t>(hnsw.nb_neighbors(0));
  header.upper_width = static_cast<uint32_t>(hnsw.nb_neighbors(1));
  header.entry = static_cast<uint32_t>(hnsw.entry_point);
  header.layers = static_cast<uint32_t>(hnsw.levels[static_cast<size_t>(hnsw.entry_point)]);
  std::vector<uint32_t> upper_first(static_cast<size_t>(rows) + 1, 0);
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    upper_first[i + 1] = upper_first[i] + static_cast<uint32_t>(hnsw.levels[i] - 1);
  }
  header.upper_lists = upper_first.back();

  const size_t base_bytes = static_cast<size_t>(rows) * header.base_width * sizeof(int32_t);
  const size_t first_bytes = upper_first.size() * sizeof(uint32_t);
  const size_t upper_bytes = size_t{header.upper_lists} * header.upper_width * sizeof(int32_t);
  std::string bytes(sizeof(header) + base_bytes + first_bytes + upper_bytes, '\0');
  char* out = bytes.data();
  std::memcpy(out, &header, sizeof(header));
  std::memcpy(out + sizeof(header) + base_bytes, upper_first.data(), first_bytes);
  int32_t* base = reinterpret_cast<int32_t*>(out + sizeof(header));
  int32_t* upper = reinterpret_cast<int32_t*>(out + sizeof(header) + base_bytes + first_bytes);
  for (Idx row = 0; row < rows; ++row) {
    CopyLinks(hnsw, row, 0, header.base_width, base);
    base += header.base_width;
    for (int layer = 1; layer < hnsw.levels[static_cast<size_t>(row)]; ++layer) {
      CopyLinks(hnsw, row, layer, header.upper_width, upper);
      upper += header.upper_width;
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> BuildGraph(const Space& space, const RowBlock& block, int64_t rows,
                                       const GraphSettings& settings, const std::function<bool()>& stop) {
  try {
    omp_set_num_threads(settings.threads);  // Of this thread's parallel regions only.
    const RowDistance distance(space, block, rows);
    BlockStorage storage(static_cast<int>(block.stride), &distance);
    faiss::IndexHNSW index(&storage, settings.m);
    index.hnsw.efConstruction = settings.ef_construction;
    for (Idx i = 0; i < rows; i += kRowsABatch) {
      if (stop()) return MakeStatus(absl::StatusCode::kCancelled, "graph build stopped");
      const Idx n = std::min<Idx>(kRowsABatch, rows - i);
      index.add(n, block.rows + static_cast<size_t>(i) * block.stride);
    }
    return Flatten(index.hnsw, rows);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for a graph of ", rows, " rows"));
  } catch (const std::exception& e) {
    return Internal(StrCat("FAISS: ", std::string(e.what())));
  }
}

}  // namespace lightcone
