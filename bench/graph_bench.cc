// HNSW through the index beside hnswlib and FAISS: queries a second at equal recall, and vectors a second while
// building.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/descriptors.h"
#include "bench/graph_peers.h"
#include "bench/index_world.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kQueries = 2'000;
constexpr int kK = 10;
constexpr int kRounds = 5;
constexpr double kRecalls[] = {0.90, 0.95, 0.99};
const std::vector<int> kBreadths = {10, 12, 16, 20, 26, 34, 44, 58, 76, 100, 130, 170, 220, 290, 380, 500, 700, 1000};

using Ids = std::vector<uint64_t>;
using SearchAll = std::function<void(int64_t q, int ef, Ids* ids)>;

struct Subject {
  std::string name;
  SearchAll search;
  std::function<void(int)> set_ef;
  double build_rows_per_s = 0;
  std::vector<int> ef_for;  // a recall each; 0: not reached
  std::vector<double> recall_reached;
  std::vector<std::vector<double>> qps;  // a recall each, a round each
};

class GraphBench {
 public:
  GraphBench(const BenchOptions& options, std::string data_name, std::vector<float> data, Report& report)
      : options_(options), data_name_(std::move(data_name)), data_(std::move(data)), report_(report) {
    dimension_ = static_cast<size_t>(options.dimension);
    const size_t gallery = data_.size() - static_cast<size_t>(kQueries) * dimension_;
    rows_ = std::span<const float>(data_).first(gallery);
    queries_ = std::span<const float>(data_).subspan(gallery);
  }

  absl::Status Run() {
    LC_RETURN_IF_ERROR(Build());
    for (Subject& subject : subjects_) ChooseBreadths(subject);
    for (int round = 0; round < kRounds; ++round) {
      for (size_t r = 0; r < std::size(kRecalls); ++r) {
        for (Subject& subject : subjects_) {
          if (subject.ef_for[r] == 0) continue;
          std::vector<Ids> unused(static_cast<size_t>(kQueries));
          subject.qps[r].push_back(static_cast<double>(kQueries) / SecondsAt(subject, subject.ef_for[r], &unused));
        }
      }
    }
    for (size_t r = 0; r < std::size(kRecalls); ++r) {
      Compare(r, subjects_[1], 1.8);
      Compare(r, subjects_[2], 3);
    }
    const double ratio = subjects_[0].build_rows_per_s / subjects_[1].build_rows_per_s;
    report_.Add({.name = StrCat("HNSW build, ", data_name_),
                 .value = subjects_[0].build_rows_per_s,
                 .unit = "rows/s",
                 .peer = subjects_[1].name,
                 .peer_value = subjects_[1].build_rows_per_s,
                 .ratio = ratio,
                 .goal = "ratio >= 1",
                 .met = ratio >= 1});
    return absl::OkStatus();
  }

 private:
  absl::Status Build() {
    const Space space{Metric::kEuclidean, options_.dimension, 1.0, 1.0};
    const double count = static_cast<double>(rows_.size() / dimension_);
    IndexSettings settings;
    settings.codes = RowCodes::kInt8;
    settings.build_threads = shape_.threads;
    settings.hnsw_m = shape_.m;
    settings.hnsw_ef_construction = shape_.ef_construction;
    LC_ASSIGN_OR_RETURN(ours_, IndexWorld::Build(options_.folder + "/graph", space, settings, rows_));
    subjects_.push_back({"Lightcone",
                         [this](int64_t q, int ef, Ids* ids) {
                           const auto result = ours_->Search(Query(q), {.k = kK, .ef = ef});
                           ids->clear();
                           if (!result.ok()) return;
                           for (const SearchHit& hit : result->hits) ids->push_back(hit.internal_id);
                         },
                         [](int) {},
                         count / ours_->build_seconds(),
                         {},
                         {},
                         {}});
    peers_.push_back(MakeHnswlib());
    peers_.push_back(MakeFaissHnsw());
    for (const auto& peer : peers_) {
      const double seconds = SecondsOfQueries(1, 1, [&](int64_t) { peer->Build(rows_, options_.dimension, shape_); });
      subjects_.push_back({peer->name(),
                           [this, p = peer.get()](int64_t q, int, Ids* ids) { p->Search(Query(q).data(), kK, ids); },
                           [p = peer.get()](int ef) { p->SetEf(ef); },
                           count / seconds,
                           {},
                           {},
                           {}});
    }
    truth_.resize(static_cast<size_t>(kQueries));
    std::atomic<int64_t> failures = 0;
    SecondsOfQueries(kQueries, shape_.threads, [&](int64_t q) {
      const auto result = ours_->Search(Query(q), {.k = kK, .exact = true});
      if (!result.ok()) {
        ++failures;
        return;
      }
      for (const SearchHit& hit : result->hits) truth_[static_cast<size_t>(q)].push_back(hit.internal_id);
    });
    return failures == 0 ? absl::OkStatus() : Internal(StrCat(failures.load(), " exact searches failed"));
  }

  std::span<const float> Query(int64_t q) const {
    return queries_.subspan(static_cast<size_t>(q) * dimension_, dimension_);
  }

  double SecondsAt(Subject& subject, int ef, std::vector<Ids>* found) {
    subject.set_ef(ef);
    return SecondsOfQueries(kQueries, shape_.threads,
                            [&](int64_t q) { subject.search(q, ef, &(*found)[static_cast<size_t>(q)]); });
  }

  double RecallAt(Subject& subject, int ef) {
    std::vector<Ids> found(static_cast<size_t>(kQueries));
    SecondsAt(subject, ef, &found);
    int64_t hits = 0;
    for (size_t q = 0; q < found.size(); ++q) {
      for (const uint64_t id : found[q]) hits += std::count(truth_[q].begin(), truth_[q].end(), id);
    }
    return static_cast<double>(hits) / static_cast<double>(kQueries * kK);
  }

  // The least breadth, to one, whose recall is enough.
  void ChooseBreadths(Subject& subject) {
    subject.qps.resize(std::size(kRecalls));
    for (const double wanted : kRecalls) {
      int low = kK - 1, high = 0;
      for (const int ef : kBreadths) {
        if (RecallAt(subject, ef) >= wanted) {
          high = ef;
          break;
        }
        low = ef;
      }
      while (high != 0 && high - low > std::max(1, high / 50)) {
        const int middle = (low + high) / 2;
        (RecallAt(subject, middle) >= wanted ? high : low) = middle;
      }
      subject.ef_for.push_back(high);
      subject.recall_reached.push_back(high == 0 ? 0 : RecallAt(subject, high));
    }
  }

  void Compare(size_t r, const Subject& peer, double goal) {
    const Subject& ours = subjects_[0];
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(ours.qps[r].size(), peer.qps[r].size()); ++i) {
      ratios.push_back(ours.qps[r][i] / peer.qps[r][i]);
    }
    Figure figure{.name = StrCat("HNSW, ", data_name_, ", ", rows_.size() / dimension_, " x ", dimension_,
                                 ", recall@10 ", Rounded(kRecalls[r], 2), ", ef ", ours.ef_for[r]),
                  .unit = "queries/s",
                  .peer = StrCat(peer.name, ", ef ", peer.ef_for[r]),
                  .goal = StrCat("ratio >= ", Rounded(goal, 1))};
    if (!ratios.empty()) {
      figure.value = Median(ours.qps[r]);
      figure.peer_value = Median(peer.qps[r]);
      figure.ratio = Median(ratios);
      figure.met = figure.ratio >= goal;
      figure.spread = Spread(ratios);
    }
    report_.Add(std::move(figure));
  }

  static std::string Rounded(double value, int digits) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    return text;
  }

  const BenchOptions& options_;
  const GraphShape shape_;
  const std::string data_name_;
  const std::vector<float> data_;
  Report& report_;
  size_t dimension_ = 0;
  std::span<const float> rows_, queries_;
  std::unique_ptr<IndexWorld> ours_;
  std::vector<std::unique_ptr<GraphPeer>> peers_;
  std::vector<Subject> subjects_;
  std::vector<Ids> truth_;
};

}  // namespace

absl::Status BenchGraph(const BenchOptions& options, Report& report) {
  // Real data, whose queries are of images that the gallery has no part of.
  if (options.dimension != kDescriptorDimension) {
    return InvalidField("dimension", StrCat(options.dimension),
                        StrCat(kDescriptorDimension, ", that of the descriptors"));
  }
  LC_ASSIGN_OR_RETURN(const Dataset images, OpenDataset(options.images, 1));
  LC_ASSIGN_OR_RETURN(std::vector<float> descriptors, SiftDescriptors(images.train, options.items, 33));
  LC_ASSIGN_OR_RETURN(const std::vector<float> queries, SiftDescriptors(images.test, kQueries, 34));
  descriptors.insert(descriptors.end(), queries.begin(), queries.end());
  LC_RETURN_IF_ERROR(GraphBench(options, "uniform of 32 dimensions",
                                UniformVectors(options.items + kQueries, options.dimension, 31), report)
                         .Run());
  LC_RETURN_IF_ERROR(GraphBench(options, "500 clusters",
                                ClusteredVectors(options.items + kQueries, options.dimension, 500, 0.7, 32), report)
                         .Run());
  const std::string kind = options.images.substr(0, options.images.find(':'));  // a folder is nobody's business
  return GraphBench(options, StrCat("SIFT of ", kind), std::move(descriptors), report).Run();
}

}  // namespace lightcone::bench
