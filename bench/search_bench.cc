// Start time and memory of a sealed collection, and what gRPC adds to a search and leaves of the engine's throughput,
// measured in one process side by side. Answers come with their items' payloads.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/processor_time.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "server/app/serve.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kCollection[] = "gallery";
constexpr int kQueries = 500;
constexpr int kRounds = 5;
constexpr int kClients = 32;
constexpr auto kWindow = std::chrono::seconds(2);
// Links of a FAISS HNSW graph with M = 16: 32 int32 a row on the base layer, 16 on each higher one (1/16 of the rows
// reach the next), and an 8-byte offset with a 4-byte level.
constexpr double kGraphBytesPerRow = 32 * 4 + 16 * 4 / 15.0 + 12;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

v1::SearchRequest TopTen(std::span<const float> query) {
  v1::SearchRequest request;
  request.set_collection(kCollection);
  request.set_k(10);
  request.set_with_payload(true);
  client::SetVector(query.data(), static_cast<int64_t>(query.size()), request.add_queries()->mutable_vector());
  return request;
}

server::SearchCall CallOfTopTen(std::span<const float> query) {
  server::SearchCall call;
  call.collection = kCollection;
  call.k = 10;
  call.with_payload = true;
  call.queries.resize(1);
  call.queries[0].content = std::vector<float>(query.begin(), query.end());
  return call;
}

absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const std::string& address) {
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = address}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
  return client;
}

absl::Status FillAndSeal(const BenchOptions& options, const std::string& folder, std::span<const float> rows) {
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, folder));
  LC_ASSIGN_OR_RETURN(auto client, ConnectTo(server->address()));
  LC_RETURN_IF_ERROR(MakeCollection(*client, kCollection, options.dimension));
  LC_RETURN_IF_ERROR(LoadRows(*client, kCollection, rows, options.dimension, 0, [](uint64_t id) {
    return StrCat("{\"title\": \"item ", id, "\", \"album\": \"", id % 97, "\", \"year\": ", 1980 + id % 45, "}");
  }));
  v1::RebuildRequest rebuild;
  rebuild.set_collection(kCollection);
  rebuild.set_wait(true);
  return client->RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status();
}

absl::Status MeasureStartAndMemory(const BenchOptions& options, const std::string& folder,
                                   std::span<const float> queries, Report& report) {
  LC_ASSIGN_OR_RETURN(auto empty, cli::ChildServer::Start(options.server_binary, options.folder + "/empty"));
  LC_ASSIGN_OR_RETURN(const int64_t empty_bytes, MemoryOf(empty->pid(), "VmRSS"));
  std::vector<double> start_s;
  int64_t bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, folder));
    start_s.push_back(MillisecondsSince(start) / 1000);
    LC_ASSIGN_OR_RETURN(auto client, ConnectTo(server->address()));
    for (int q = 0; q < kQueries; ++q) {
      LC_RETURN_IF_ERROR(
          client->Search(TopTen(queries.subspan(static_cast<size_t>(q) * options.dimension, options.dimension)))
              .status());
    }
    LC_ASSIGN_OR_RETURN(bytes, MemoryOf(server->pid(), "VmRSS"));
  }
  const double seconds = Median(start_s);
  report.AddAtMost(StrCat("start, ", options.items, " x ", options.dimension, " sealed"), seconds, "s", 3,
                   Spread(start_s));
  const double per_item = static_cast<double>(bytes - empty_bytes) / static_cast<double>(options.items);
  const double raw = 4.0 * options.dimension + kGraphBytesPerRow;
  report.Add({.name = "memory per item (RSS beyond an empty server)",
              .value = per_item,
              .unit = "B",
              .peer = "vector + graph bytes",
              .peer_value = raw,
              .ratio = per_item / raw,
              .goal = "ratio <= 1.5",
              .met = per_item / raw <= 1.5});
  return absl::OkStatus();
}

// What kClients threads that ask one query after the other get, and what it takes.
struct Throughput {
  double calls_per_second = 0;
  double caller_us = 0, other_us = 0;  // processor time a call: of the threads that ask, of all others
};

absl::StatusOr<Throughput> Ask(const std::function<absl::Status(int client, int query)>& ask) {
  std::atomic<int64_t> calls{0};
  std::atomic<double> callers_s{0};
  std::atomic<bool> failed{false};
  const absl::Duration before = ProcessorTimeOfProcess();
  const Clock::time_point start = Clock::now(), end = start + kWindow;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (int q = c; Clock::now() < end && !failed; q = (q + 7) % kQueries) {
        if (ask(c, q).ok()) {
          ++calls;
        } else {
          failed = true;
        }
      }
      callers_s += absl::ToDoubleSeconds(ProcessorTimeOfThread());
    });
  }
  for (std::thread& client : clients) client.join();
  if (failed) return Internal("a search failed");
  const double n = static_cast<double>(calls), all_s = absl::ToDoubleSeconds(ProcessorTimeOfProcess() - before);
  return Throughput{n / (MillisecondsSince(start) / 1000), 1e6 * callers_s / n, 1e6 * (all_s - callers_s) / n};
}

absl::Status MeasureThroughput(const BenchOptions& options, server::RunningServer& running,
                               std::span<const float> queries, Report& report) {
  std::vector<std::unique_ptr<client::Client>> clients;
  for (int c = 0; c < kClients; ++c) {
    LC_ASSIGN_OR_RETURN(clients.emplace_back(), ConnectTo(running.bound().grpc));
  }
  const auto query = [&](int q) {
    return queries.subspan(static_cast<size_t>(q) * options.dimension, options.dimension);
  };
  std::vector<double> wire, engine, ratios, client_us, server_us, engine_us;
  for (int round = 0; round <= kRounds; ++round) {
    LC_ASSIGN_OR_RETURN(const Throughput served, Ask([&](int c, int q) {
                          return clients[static_cast<size_t>(c)]->Search(TopTen(query(q))).status();
                        }));
    LC_ASSIGN_OR_RETURN(const Throughput direct,
                        Ask([&](int, int q) { return running.engine().Search(CallOfTopTen(query(q)), {}).status(); }));
    if (round == 0) continue;  // warm-up
    wire.push_back(served.calls_per_second);
    engine.push_back(direct.calls_per_second);
    ratios.push_back(served.calls_per_second / direct.calls_per_second);
    client_us.push_back(served.caller_us);
    server_us.push_back(served.other_us);
    engine_us.push_back(direct.caller_us + direct.other_us);
  }
  const std::string what = StrCat("gRPC top-10 searches with payloads, ", options.items, " x ", options.dimension, ", ",
                                  kClients, " clients on the same cores");
  report.Add({.name = what,
              .value = Median(wire),
              .unit = "queries/s",
              .peer = StrCat(kClients, " threads through Engine::Search"),
              .peer_value = Median(engine),
              .ratio = Median(ratios),
              .goal = "ratio >= 0.6",
              .met = Median(ratios) >= 0.6,
              .spread = Spread(ratios)});
  // What is left where clients have cores of their own.
  report.Add({.name = StrCat(what, ": processor time a search, the server's (the clients': ",
                             static_cast<int64_t>(Median(client_us)), " us more)"),
              .value = Median(server_us),
              .unit = "us",
              .peer = "through Engine::Search",
              .peer_value = Median(engine_us),
              .ratio = Median(server_us) / Median(engine_us),
              .goal = "none",
              .met = true,
              .spread = Spread(server_us)});
  return absl::OkStatus();
}

// Each round asks every query once through gRPC and once of the engine, alternating, in one process.
absl::Status MeasureOverhead(const BenchOptions& options, const std::string& folder, std::span<const float> queries,
                             Report& report) {
  server::ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http_listen = "";
  config.engine.data_folder = folder;
  LC_ASSIGN_OR_RETURN(auto running, server::RunningServer::Start(config));
  LC_ASSIGN_OR_RETURN(auto client, ConnectTo(running->bound().grpc));
  std::vector<double> overheads, engine_p50s, wire_p50s;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> wire, engine;
    for (int q = 0; q < kQueries; ++q) {
      const auto query = queries.subspan(static_cast<size_t>(q) * options.dimension, options.dimension);
      const v1::SearchRequest request = TopTen(query);
      Clock::time_point start = Clock::now();
      LC_RETURN_IF_ERROR(client->Search(request).status());
      wire.push_back(MillisecondsSince(start));
      const server::SearchCall call = CallOfTopTen(query);
      start = Clock::now();
      LC_RETURN_IF_ERROR(running->engine().Search(call, {}).status());
      engine.push_back(MillisecondsSince(start));
    }
    if (round == 0) continue;  // warm-up
    wire_p50s.push_back(Median(wire));
    engine_p50s.push_back(Median(engine));
    overheads.push_back(wire_p50s.back() - engine_p50s.back());
  }
  const double overhead = Median(overheads);
  report.Add({.name = StrCat("gRPC top-10 search with payloads, ", options.items, " x ", options.dimension, ", p50"),
              .value = Median(wire_p50s),
              .unit = "ms",
              .peer = "the same through Engine::Search",
              .peer_value = Median(engine_p50s),
              .ratio = Median(wire_p50s) / Median(engine_p50s),
              .goal = "value-peer <= 0.3",
              .met = overhead <= 0.3,
              .spread = Spread(wire_p50s)});
  return MeasureThroughput(options, *running, queries, report);
}

}  // namespace

absl::Status BenchSearch(const BenchOptions& options, Report& report) {
  const std::string folder = options.folder + "/search";
  const std::vector<float> rows = ClusteredVectors(options.items + kQueries, options.dimension, 500, 0.7, 11);
  const std::span<const float> all(rows);
  const size_t gallery = static_cast<size_t>(options.items) * options.dimension;
  LC_RETURN_IF_ERROR(FillAndSeal(options, folder, all.first(gallery)));
  LC_RETURN_IF_ERROR(MeasureStartAndMemory(options, folder, all.subspan(gallery), report));
  return MeasureOverhead(options, folder, all.subspan(gallery), report);
}

}  // namespace lightcone::bench
