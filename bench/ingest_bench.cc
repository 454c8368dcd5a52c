// Searches beside writers: the p99 of a paced search with nothing else to do, and while 16 writers upsert at half the
// rate that they reach without it. Sealing and merging go on meanwhile. And the same while the whole gallery is
// rebuilt.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "bench/paced.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "index/api/collection_index.h"

namespace lightcone::bench {
namespace {

constexpr char kCollection[] = "gallery";
constexpr int kWriters = 16;
constexpr int kBatch = 100;
constexpr int kRounds = 5;
constexpr int kSearchesPerSecond = 200;
constexpr absl::Duration kPhase = absl::Seconds(6);
// Beside a rebuild, whose graph is built so broadly that it takes longer than all of this.
constexpr int kLongConstruction = 2'000;
constexpr double kRowsPerSecond = 5'000;
constexpr absl::Duration kRebuildBegins = absl::Seconds(1);
constexpr absl::Duration kBeforeWindows = absl::Seconds(15), kWindow = absl::Seconds(3);
constexpr int kWindows = 5;
constexpr double kWaitingMax = 100'000;  // five growing segments, which every search scans

class IngestBench {
 public:
  IngestBench(const BenchOptions& options, Report& report) : options_(options), report_(report) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(Load());
    LC_ASSIGN_OR_RETURN(const double full_rate, Write(absl::ZeroDuration(), absl::Seconds(3)));
    const absl::Duration period = absl::Seconds(kWriters * kBatch / (full_rate / 2));
    std::vector<double> idle, busy, ratios;
    double rate = 0;
    for (int round = 0; round <= kRounds; ++round) {
      LC_RETURN_IF_ERROR(Load());  // anew: a round's rows would be the next one's gallery
      LC_ASSIGN_OR_RETURN(const double alone, SearchP99(absl::Now(), absl::Now() + kPhase));
      absl::StatusOr<double> written = 0.0;
      std::jthread writing([&] { written = Write(period, kPhase); });
      LC_ASSIGN_OR_RETURN(const double beside, SearchP99(absl::Now(), absl::Now() + kPhase));
      writing.join();
      LC_RETURN_IF_ERROR(written.status());
      if (round == 0) continue;  // warm-up
      rate = *written;
      idle.push_back(alone);
      busy.push_back(beside);
      ratios.push_back(beside / alone);
    }
    report_.Add({.name = StrCat("search p99 beside upserts at ", static_cast<int64_t>(rate), " rows/s (half of ",
                                static_cast<int64_t>(full_rate), ")"),
                 .value = Median(busy),
                 .unit = "ms",
                 .peer = "the same without",
                 .peer_value = Median(idle),
                 .ratio = Median(ratios),
                 .goal = "ratio <= 1.5",
                 .met = Median(ratios) <= 1.5,
                 .spread = Spread(ratios)});
    return absl::OkStatus();
  }

  absl::Status BesideRebuild() {
    LC_RETURN_IF_ERROR(Load());
    LC_ASSIGN_OR_RETURN(const double alone, SearchP99(absl::Now(), absl::Now() + kPhase));
    v1::RebuildRequest rebuild;
    rebuild.set_collection(kCollection);
    rebuild.mutable_index()->set_hnsw_ef_construction(kLongConstruction);
    LC_RETURN_IF_ERROR(client_->RebuildCollection(rebuild).status());
    absl::SleepFor(kRebuildBegins);
    // The one that has begun goes on; new rows are sealed as ever.
    rebuild.mutable_index()->set_hnsw_ef_construction(IndexSettings().hnsw_ef_construction);
    LC_RETURN_IF_ERROR(client_->RebuildCollection(rebuild).status());
    absl::StatusOr<double> written = 0.0;
    std::vector<double> beside, ratios;
    {
      std::jthread writing([&] {
        written = Write(absl::Seconds(kWriters * kBatch / kRowsPerSecond), kBeforeWindows + kWindows * kWindow);
      });
      absl::Time begin = absl::Now() + kBeforeWindows;
      for (int window = 0; window < kWindows; ++window, begin += kWindow) {
        LC_ASSIGN_OR_RETURN(const double p99, SearchP99(begin, begin + kWindow));
        beside.push_back(p99);
        ratios.push_back(p99 / alone);
      }
    }
    LC_RETURN_IF_ERROR(written.status());
    v1::CollectionsGetRequest get;
    get.set_name(kCollection);
    LC_ASSIGN_OR_RETURN(const v1::CollectionsGetResponse got, client_->GetCollection(get));
    uint64_t waiting = 0, rows = 0;
    for (const v1::CollectionInfo::Segment& segment : got.collection().segments()) {
      rows += segment.rows();
      if (segment.kind() == "growing") waiting += segment.rows();
    }
    report_.Add({.name = StrCat("search p99 during a rebuild of ", rows, " rows, beside upserts at ",
                                static_cast<int64_t>(*written), " rows/s"),
                 .value = Median(beside),
                 .unit = "ms",
                 .peer = "the same without either",
                 .peer_value = alone,
                 .ratio = Median(ratios),
                 .goal = "ratio <= 1.5",
                 .met = Median(ratios) <= 1.5,
                 .spread = Spread(ratios)});
    report_.AddAtMost(StrCat("rows that wait to be sealed then, after ",
                             static_cast<int64_t>(absl::ToDoubleSeconds(kBeforeWindows + kWindows * kWindow)), " s"),
                      static_cast<double>(waiting), "rows", kWaitingMax);
    return absl::OkStatus();
  }

 private:
  // Starts a server with a sealed gallery, where one ran in its place.
  absl::Status Load() {
    client_.reset();
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(options_.folder + "/ingest", ignored);
    LC_ASSIGN_OR_RETURN(server_, cli::ChildServer::Start(options_.server_binary, options_.folder + "/ingest"));
    LC_ASSIGN_OR_RETURN(client_, client::Client::Connect({.address = server_->address()}));
    LC_RETURN_IF_ERROR(client_->WaitUntilServing(absl::Seconds(30)));
    LC_RETURN_IF_ERROR(MakeCollection(*client_, kCollection, options_.dimension));
    const int64_t rows = options_.items / 2;
    LC_RETURN_IF_ERROR(
        LoadRows(*client_, kCollection, ClusteredVectors(rows, options_.dimension, 500, 0.7, 11), options_.dimension));
    v1::RebuildRequest rebuild;
    rebuild.set_collection(kCollection);
    rebuild.set_wait(true);
    LC_RETURN_IF_ERROR(client_->RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status());
    next_id_ = static_cast<uint64_t>(rows);
    return absl::OkStatus();
  }

  // 16 writers of new rows, each with a batch every `period`; gives rows a second.
  absl::StatusOr<double> Write(absl::Duration period, absl::Duration duration) {
    const std::vector<float> rows = ClusteredVectors(kBatch, options_.dimension, 50, 0.5, 7);
    std::atomic<int64_t> written{0};
    std::vector<absl::Status> errors(kWriters);
    const absl::Time begin = absl::Now(), end = begin + duration;
    {
      std::vector<std::jthread> writers;
      for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back([&, w] {
          // Spread over the period, as writers who know nothing of each other are.
          const absl::Time first = begin + period * w / kWriters;
          errors[w] = Paced(first, end, period, nullptr, [&]() -> absl::Status {
            const uint64_t id = next_id_.fetch_add(kBatch);
            LC_RETURN_IF_ERROR(
                client_->Upsert(MakeBatch(kCollection, id, rows.data(), kBatch, options_.dimension)).status());
            written.fetch_add(kBatch);
            return absl::OkStatus();
          });
        });
      }
    }
    for (const absl::Status& error : errors) LC_RETURN_IF_ERROR(error);
    return static_cast<double>(written.load()) / absl::ToDoubleSeconds(absl::Now() - begin);
  }

  absl::StatusOr<double> SearchP99(absl::Time begin, absl::Time end) {
    constexpr int kQueries = 500;
    static const std::vector<float> queries = ClusteredVectors(kQueries, options_.dimension, 500, 0.7, 12);
    std::vector<double> latencies;
    int next = 0;
    LC_RETURN_IF_ERROR(Paced(begin, end, absl::Seconds(1) / kSearchesPerSecond, &latencies, [&] {
      v1::SearchRequest request;
      request.set_collection(kCollection);
      request.set_k(10);
      client::SetVector(&queries[static_cast<size_t>(next++ % kQueries) * options_.dimension], options_.dimension,
                        request.add_queries()->mutable_vector());
      return client_->Search(request).status();
    }));
    return Percentile99(latencies);
  }

  const BenchOptions& options_;
  Report& report_;
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace

absl::Status BenchIngest(const BenchOptions& options, Report& report) { return IngestBench(options, report).Run(); }

absl::Status BenchRebuild(const BenchOptions& options, Report& report) {
  return IngestBench(options, report).BesideRebuild();
}

}  // namespace lightcone::bench
