#include "bench/graph_peers.h"

#include <faiss/IndexHNSW.h>
#include <hnswlib/hnswlib.h>
#include <omp.h>

#include <atomic>
#include <thread>

namespace lightcone::bench {
namespace {

class Hnswlib : public GraphPeer {
 public:
  std::string name() const override { return "hnswlib 0.6.2 -march=native"; }

  void Build(std::span<const float> rows, int dimension, const GraphShape& shape) override {
    const size_t count = rows.size() / static_cast<size_t>(dimension);
    space_ = std::make_unique<hnswlib::L2Space>(static_cast<size_t>(dimension));
    index_ = std::make_unique<hnswlib::HierarchicalNSW<float>>(space_.get(), count, static_cast<size_t>(shape.m),
                                                               static_cast<size_t>(shape.ef_construction));
    index_->addPoint(rows.data(), 0);
    std::atomic<size_t> next = 1;
    std::vector<std::thread> workers;
    for (int t = 0; t < shape.threads; ++t) {
      workers.emplace_back([&] {
        for (size_t i = next++; i < count; i = next++) index_->addPoint(&rows[i * static_cast<size_t>(dimension)], i);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

  void SetEf(int ef) override { index_->setEf(static_cast<size_t>(ef)); }

  void Search(const float* query, int k, std::vector<uint64_t>* ids) const override {
    ids->clear();
    for (auto found = index_->searchKnn(query, static_cast<size_t>(k)); !found.empty(); found.pop()) {
      ids->push_back(found.top().second);
    }
  }

 private:
  std::unique_ptr<hnswlib::L2Space> space_;
  std::unique_ptr<hnswlib::HierarchicalNSW<float>> index_;
};

class FaissHnsw : public GraphPeer {
 public:
  std::string name() const override { return "FAISS HNSW of the distribution"; }

  void Build(std::span<const float> rows, int dimension, const GraphShape& shape) override {
    omp_set_num_threads(shape.threads);
    index_ = std::make_unique<faiss::IndexHNSWFlat>(dimension, shape.m);
    index_->hnsw.efConstruction = shape.ef_construction;
    index_->add(static_cast<faiss::Index::idx_t>(rows.size()) / dimension, rows.data());
  }

  void SetEf(int ef) override { index_->hnsw.efSearch = ef; }

  void Search(const float* query, int k, std::vector<uint64_t>* ids) const override {
    omp_set_num_threads(1);  // of this thread: one query each
    std::vector<float> distances(static_cast<size_t>(k));
    std::vector<faiss::Index::idx_t> labels(static_cast<size_t>(k));
    index_->search(1, query, k, distances.data(), labels.data());
    ids->assign(labels.begin(), labels.end());
  }

 private:
  std::unique_ptr<faiss::IndexHNSWFlat> index_;
};

}  // namespace

std::unique_ptr<GraphPeer> MakeHnswlib() { return std::make_unique<Hnswlib>(); }
std::unique_ptr<GraphPeer> MakeFaissHnsw() { return std::make_unique<FaissHnsw>(); }

}  // namespace lightcone::bench
