// Inverted lists through the index beside FAISS's IVF flat: queries a second at equal recall, rows a second while
// building, bytes a row.
#include <faiss/IndexFlat.h>
#include <faiss/IndexIVFFlat.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/index_world.h"
#include "index/ivf/list_builder.h"

namespace lightcone::bench {
namespace {

constexpr int64_t kQueries = 1'000;
constexpr int kK = 10;
constexpr int kRounds = 5;
constexpr int kThreads = 2;
constexpr double kRecalls[] = {0.90, 0.95, 0.99};
constexpr int kProbesMax = 1024;

using Ids = std::vector<uint64_t>;

struct Subject {
  std::string name;
  std::function<void(int64_t q, int nprobe, Ids* ids)> search;
  double build_rows_per_s = 0;
  double bytes_a_row = 0;
  std::vector<int> nprobe_for;           // a recall each; 0: not reached
  std::vector<std::vector<double>> qps;  // a recall each, a round each
};

class IvfBench {
 public:
  IvfBench(const BenchOptions& options, std::string data_name, std::vector<float> data, Report& report)
      : options_(options), data_name_(std::move(data_name)), data_(std::move(data)), report_(report) {
    dimension_ = static_cast<size_t>(options.dimension);
    const size_t gallery = data_.size() - static_cast<size_t>(kQueries) * dimension_;
    rows_ = std::span<const float>(data_).first(gallery);
    queries_ = std::span<const float>(data_).subspan(gallery);
  }

  absl::Status Run() {
    for (const RowCodes codes : kCodes) LC_RETURN_IF_ERROR(BuildOurs(codes));
    BuildPeer();
    LC_RETURN_IF_ERROR(FindTruth());
    for (Subject& subject : subjects_) ChooseProbes(subject);
    for (int round = 0; round < kRounds; ++round) {
      for (size_t r = 0; r < std::size(kRecalls); ++r) {
        for (Subject& subject : subjects_) {
          if (subject.nprobe_for[r] == 0) continue;
          std::vector<Ids> unused(static_cast<size_t>(kQueries));
          subject.qps[r].push_back(static_cast<double>(kQueries) / SecondsAt(subject, subject.nprobe_for[r], &unused));
        }
      }
    }
    for (size_t s = 0; s + 1 < subjects_.size(); ++s) Compare(subjects_[s], subjects_.back());
    return absl::OkStatus();
  }

 private:
  static constexpr RowCodes kCodes[] = {RowCodes::kInt8, RowCodes::kHalf, RowCodes::kFloat32, RowCodes::kPq};

  absl::Status BuildOurs(RowCodes codes) {
    const Space space{Metric::kEuclidean, options_.dimension, 1.0, 1.0};
    IndexSettings settings;
    settings.kind = SealedKind::kIvf;
    settings.codes = codes;
    settings.build_threads = kThreads;
    const std::string folder = StrCat(options_.folder, "/ivf-", RowCodesName(codes));
    LC_ASSIGN_OR_RETURN(std::unique_ptr<IndexWorld> world, IndexWorld::Build(folder, space, settings, rows_));
    subjects_.push_back({StrCat("IVF ", RowCodesName(codes)),
                         [this, w = world.get()](int64_t q, int nprobe, Ids* ids) {
                           const auto result = w->Search(Query(q), {.k = kK, .nprobe = nprobe});
                           ids->clear();
                           if (!result.ok()) return;
                           for (const SearchHit& hit : result->hits) ids->push_back(hit.internal_id);
                         },
                         static_cast<double>(count()) / world->build_seconds(),
                         static_cast<double>(world->mapped_bytes()) / static_cast<double>(count()),
                         {},
                         {}});
    worlds_.push_back(std::move(world));
    return absl::OkStatus();
  }

  // As many lists as ours; trained and filled by FAISS's defaults.
  void BuildPeer() {
    const int dimension = options_.dimension;
    lists_ = std::make_unique<faiss::IndexFlatL2>(dimension);
    peer_ = std::make_unique<faiss::IndexIVFFlat>(lists_.get(), static_cast<size_t>(dimension), DefaultLists(count()));
    omp_set_num_threads(kThreads);
    const double seconds = SecondsOfQueries(1, 1, [&](int64_t) {
      peer_->train(count(), rows_.data());
      peer_->add(count(), rows_.data());
    });
    subjects_.push_back({"FAISS IVF flat of the distribution",
                         [this](int64_t q, int nprobe, Ids* ids) {
                           omp_set_num_threads(1);  // of this thread: one query each
                           faiss::IVFSearchParameters parameters;
                           parameters.nprobe = static_cast<size_t>(nprobe);
                           std::vector<float> distances(kK);
                           std::vector<int64_t> labels(kK);
                           peer_->search(1, Query(q).data(), kK, distances.data(), labels.data(), &parameters);
                           ids->assign(labels.begin(), labels.end());
                         },
                         static_cast<double>(count()) / seconds,
                         static_cast<double>(dimension) * sizeof(float) + sizeof(int64_t),
                         {},
                         {}});
  }

  absl::Status FindTruth() {
    truth_.resize(static_cast<size_t>(kQueries));
    std::atomic<int64_t> failures = 0;
    SecondsOfQueries(kQueries, kThreads, [&](int64_t q) {
      const auto result = worlds_[0]->Search(Query(q), {.k = kK, .exact = true});
      if (!result.ok()) {
        ++failures;
        return;
      }
      for (const SearchHit& hit : result->hits) truth_[static_cast<size_t>(q)].push_back(hit.internal_id);
    });
    return failures == 0 ? absl::OkStatus() : Internal(StrCat(failures.load(), " exact searches failed"));
  }

  int64_t count() const { return static_cast<int64_t>(rows_.size() / dimension_); }
  std::span<const float> Query(int64_t q) const {
    return queries_.subspan(static_cast<size_t>(q) * dimension_, dimension_);
  }

  double SecondsAt(const Subject& subject, int nprobe, std::vector<Ids>* found) const {
    return SecondsOfQueries(kQueries, kThreads,
                            [&](int64_t q) { subject.search(q, nprobe, &(*found)[static_cast<size_t>(q)]); });
  }

  double RecallAt(const Subject& subject, int nprobe) const {
    std::vector<Ids> found(static_cast<size_t>(kQueries));
    SecondsAt(subject, nprobe, &found);
    int64_t hits = 0;
    for (size_t q = 0; q < found.size(); ++q) {
      for (const uint64_t id : found[q]) hits += std::count(truth_[q].begin(), truth_[q].end(), id);
    }
    return static_cast<double>(hits) / static_cast<double>(kQueries * kK);
  }

  // The least number of lists, to two per cent, whose recall is enough.
  void ChooseProbes(Subject& subject) const {
    subject.qps.resize(std::size(kRecalls));
    for (const double wanted : kRecalls) {
      int low = 0, high = 1;
      while (high <= kProbesMax && RecallAt(subject, high) < wanted) {
        low = high;
        high *= 2;
      }
      while (high <= kProbesMax && high - low > std::max(1, high / 50)) {
        const int middle = (low + high) / 2;
        (RecallAt(subject, middle) >= wanted ? high : low) = middle;
      }
      subject.nprobe_for.push_back(high <= kProbesMax ? high : 0);
    }
  }

  void Compare(const Subject& ours, const Subject& peer) {
    for (size_t r = 0; r < std::size(kRecalls); ++r) {
      std::vector<double> ratios;
      for (size_t i = 0; i < std::min(ours.qps[r].size(), peer.qps[r].size()); ++i) {
        ratios.push_back(ours.qps[r][i] / peer.qps[r][i]);
      }
      Figure figure{.name = StrCat(ours.name, ", ", data_name_, ", ", count(), " x ", dimension_, ", recall@10 0.",
                                   std::lround(100 * kRecalls[r]), ", nprobe ", ours.nprobe_for[r]),
                    .unit = "queries/s",
                    .peer = StrCat(peer.name, ", nprobe ", peer.nprobe_for[r]),
                    .goal = "ratio >= 1"};
      if (!ratios.empty()) {
        figure.value = Median(ours.qps[r]);
        figure.peer_value = Median(peer.qps[r]);
        figure.ratio = Median(ratios);
        figure.met = figure.ratio >= 1;
        figure.spread = Spread(ratios);
      }
      report_.Add(std::move(figure));
    }
    const auto add = [&](const char* what, double value, double of_peer, const char* unit) {
      report_.Add({.name = StrCat(ours.name, " ", what, ", ", data_name_),
                   .value = value,
                   .unit = unit,
                   .peer = peer.name,
                   .peer_value = of_peer,
                   .ratio = value / of_peer,
                   .goal = "none",
                   .met = true});
    };
    add("build", ours.build_rows_per_s, peer.build_rows_per_s, "rows/s");
    add("files, vectors included", ours.bytes_a_row, peer.bytes_a_row, "bytes/row");
  }

  const BenchOptions& options_;
  const std::string data_name_;
  const std::vector<float> data_;
  Report& report_;
  size_t dimension_ = 0;
  std::span<const float> rows_, queries_;
  std::vector<std::unique_ptr<IndexWorld>> worlds_;
  std::unique_ptr<faiss::IndexFlatL2> lists_;
  std::unique_ptr<faiss::IndexIVFFlat> peer_;
  std::vector<Subject> subjects_;
  std::vector<Ids> truth_;
};

}  // namespace

absl::Status BenchIvf(const BenchOptions& options, Report& report) {
  LC_RETURN_IF_ERROR(IvfBench(options, "uniform of 32 dimensions",
                              UniformVectors(options.items + kQueries, options.dimension, 31), report)
                         .Run());
  return IvfBench(options, "500 clusters", ClusteredVectors(options.items + kQueries, options.dimension, 500, 0.7, 32),
                  report)
      .Run();
}

}  // namespace lightcone::bench
