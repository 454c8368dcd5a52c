// The graphs that users would otherwise pick, behind one face: hnswlib compiled for this very processor, and FAISS as
// the distribution ships it. Both hold float32 vectors in memory and search by squared Euclidean distance. Threads:
// Search from any thread after Build.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lightcone::bench {

struct GraphShape {
  int m = 16;
  int ef_construction = 200;
  int threads = 2;
};

class GraphPeer {
 public:
  virtual ~GraphPeer() = default;
  virtual std::string name() const = 0;
  virtual void Build(std::span<const float> rows, int dimension, const GraphShape& shape) = 0;
  virtual void SetEf(int ef) = 0;
  // The ids of the k nearest, in any order.
  virtual void Search(const float* query, int k, std::vector<uint64_t>* ids) const = 0;
};

std::unique_ptr<GraphPeer> MakeHnswlib();
std::unique_ptr<GraphPeer> MakeFaissHnsw();

}  // namespace lightcone::bench
