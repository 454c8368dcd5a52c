// Durable upserts through gRPC, 16 writers, batches of 100, beside the same rows written straight to RocksDB with sync.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace lightcone::bench {
namespace {

constexpr int kWriters = 16;
constexpr int kBatch = 100;
constexpr int kBatchesPerWriter = 40;
constexpr int kRounds = 9;

// Runs 16 writers; gives rows a second, or the first error.
template <typename WriteBatchFn>
absl::StatusOr<double> RowsPerSecond(WriteBatchFn write) {
  std::atomic<bool> failed{false};
  std::vector<absl::Status> errors(kWriters);
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        for (int b = 0; b < kBatchesPerWriter && !failed; ++b) {
          errors[w] = write(w, b);
          if (!errors[w].ok()) failed = true;
        }
      });
    }
  }
  for (const absl::Status& error : errors) LC_RETURN_IF_ERROR(error);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return kWriters * kBatchesPerWriter * kBatch / seconds;
}

uint64_t FirstId(int round, int writer, int batch) {
  return ((static_cast<uint64_t>(round) * kWriters + writer) * kBatchesPerWriter + batch) * kBatch;
}

}  // namespace

absl::Status BenchUpsert(const BenchOptions& options, Report& report) {
  const int d = options.dimension;
  const std::vector<float> rows = ClusteredVectors(kBatch * kBatchesPerWriter, d, 50, 0.5, 7);
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/server"));
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(30)));

  rocksdb::Options raw_options;
  raw_options.create_if_missing = true;
  rocksdb::DB* raw_pointer = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(raw_options, options.folder + "/raw", &raw_pointer);
  if (!opened.ok()) return Internal(opened.ToString());
  const std::unique_ptr<rocksdb::DB> raw(raw_pointer);
  rocksdb::WriteOptions synced;
  synced.sync = true;

  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round < kRounds; ++round) {
    // A collection of its own for each round, dropped behind it: the graph that the server builds once a burst is over
    // is not built beside the peer's round.
    const std::string collection = StrCat("upserts-", round);
    LC_RETURN_IF_ERROR(MakeCollection(*client, collection, d));
    LC_ASSIGN_OR_RETURN(
        const double lightcone_rate, RowsPerSecond([&](int w, int b) -> absl::Status {
          return client->Upsert(MakeBatch(collection, FirstId(round, w, b), &rows[b * kBatch * d], kBatch, d)).status();
        }));
    v1::DropRequest drop;
    drop.set_name(collection);
    LC_RETURN_IF_ERROR(client->DropCollection(drop).status());
    LC_ASSIGN_OR_RETURN(
        const double raw_rate, RowsPerSecond([&](int w, int b) -> absl::Status {
          rocksdb::WriteBatch batch;
          for (int i = 0; i < kBatch; ++i) {
            const uint64_t id = __builtin_bswap64(FirstId(round, w, b) + i);
            batch.Put(rocksdb::Slice(reinterpret_cast<const char*>(&id), sizeof id),
                      rocksdb::Slice(reinterpret_cast<const char*>(&rows[(b * kBatch + i) * d]), sizeof(float) * d));
          }
          const rocksdb::Status status = raw->Write(synced, &batch);
          return status.ok() ? absl::OkStatus() : Internal(status.ToString());
        }));
    if (round == 0) continue;  // warm-up
    ours.push_back(lightcone_rate);
    theirs.push_back(raw_rate);
    ratios.push_back(lightcone_rate / raw_rate);
  }
  const double ratio = Median(ratios);
  report.Add({.name = "durable upserts, gRPC, 16 writers x 100",
              .value = Median(ours),
              .unit = "rows/s",
              .peer = "RocksDB, same rows, sync",
              .peer_value = Median(theirs),
              .ratio = ratio,
              .goal = "ratio >= 0.7",
              .met = ratio >= 0.7,
              .spread = Spread(ratios)});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
