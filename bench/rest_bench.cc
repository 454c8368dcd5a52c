// REST beside gRPC: searches a second by connections that stay open, and the memory of connections that do nothing.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/http_peer.h"
#include "bench/load.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "nlohmann/json.hpp"
#include "server/app/serve.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kCollection[] = "gallery";
constexpr char kSearchPath[] = "/collections/gallery/points/search";
constexpr int kQueries = 500;
constexpr int kRounds = 5;
constexpr auto kWindow = std::chrono::seconds(2);
constexpr int kIdleConnections = 2'000;
constexpr double kMiB = 1 << 20;

// One query in both forms.
struct Query {
  v1::SearchRequest grpc;
  std::string rest;
};

std::vector<Query> MakeQueries(std::span<const float> vectors, int dimension) {
  std::vector<Query> queries(kQueries);
  for (int q = 0; q < kQueries; ++q) {
    const auto vector = vectors.subspan(static_cast<size_t>(q) * dimension, dimension);
    v1::SearchRequest& request = queries[q].grpc;
    request.set_collection(kCollection);
    request.set_k(10);
    request.set_with_payload(true);
    client::SetVector(vector.data(), dimension, request.add_queries()->mutable_vector());
    queries[q].rest =
        nlohmann::json(
            {{"vector", std::vector<float>(vector.begin(), vector.end())}, {"limit", 10}, {"with_payload", true}})
            .dump();
  }
  return queries;
}

// As gRPC's client does, this one reads what comes: each hit's id and payload.
absl::Status SearchByRest(HttpClient& connection, const std::string& body) {
  LC_ASSIGN_OR_RETURN(const std::string answer, connection.Post(kSearchPath, body));
  const auto json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("result")) return Internal("the answer is no list of hits");
  size_t found = 0;
  for (const auto& hit : json["result"]) found += hit.contains("id") && hit.contains("payload");
  return found == 10 ? absl::OkStatus() : Internal(StrCat(found, " hits in place of 10"));
}

// Calls a second of `clients` threads that ask one query after the other.
absl::StatusOr<double> Ask(int clients, const std::function<absl::Status(int client, int query)>& ask) {
  std::atomic<int64_t> calls{0};
  std::vector<absl::Status> errors(static_cast<size_t>(clients));
  const Clock::time_point start = Clock::now(), end = start + kWindow;
  {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c) {
      threads.emplace_back([&, c] {
        for (int q = c; Clock::now() < end && errors[c].ok(); q = (q + 7) % kQueries, ++calls) errors[c] = ask(c, q);
      });
    }
  }
  for (const absl::Status& error : errors) LC_RETURN_IF_ERROR(error);
  return static_cast<double>(calls) / std::chrono::duration<double>(Clock::now() - start).count();
}

absl::Status MeasureSearches(server::RunningServer& running, const std::vector<Query>& queries, int clients,
                             Report& report) {
  std::vector<std::unique_ptr<client::Client>> callers;
  std::vector<std::unique_ptr<HttpClient>> connections;
  for (int c = 0; c < clients; ++c) {
    LC_ASSIGN_OR_RETURN(callers.emplace_back(), client::Client::Connect({.address = running.bound().grpc}));
    LC_RETURN_IF_ERROR(callers.back()->WaitUntilServing(absl::Seconds(60)));
    LC_ASSIGN_OR_RETURN(connections.emplace_back(), HttpClient::Connect(running.bound().http));
  }
  std::vector<double> rest, grpc, ratios;
  for (int round = 0; round <= kRounds; ++round) {
    LC_ASSIGN_OR_RETURN(const double by_rest,
                        Ask(clients, [&](int c, int q) { return SearchByRest(*connections[c], queries[q].rest); }));
    LC_ASSIGN_OR_RETURN(const double by_grpc,
                        Ask(clients, [&](int c, int q) { return callers[c]->Search(queries[q].grpc).status(); }));
    if (round == 0) continue;  // warm-up
    rest.push_back(by_rest);
    grpc.push_back(by_grpc);
    ratios.push_back(by_rest / by_grpc);
  }
  report.Add({.name = StrCat("REST top-10 searches with payloads, ", clients, " connections that stay open"),
              .value = Median(rest),
              .unit = "queries/s",
              .peer = "gRPC, as many clients",
              .peer_value = Median(grpc),
              .ratio = Median(ratios),
              .goal = "ratio >= 0.7",
              .met = Median(ratios) >= 0.7,
              .spread = Spread(ratios)});
  return absl::OkStatus();
}

absl::Status MeasureIdle(const BenchOptions& options, Report& report) {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::vector<double> grown;
  for (int round = 0; round < 3; ++round) {
    LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/idle"));
    LC_ASSIGN_OR_RETURN(const auto first, HttpClient::Connect(server->http_address()));
    LC_RETURN_IF_ERROR(first->Get("/collections"));
    LC_ASSIGN_OR_RETURN(const int64_t before, MemoryOf(server->pid(), "VmRSS"));
    std::vector<std::unique_ptr<HttpClient>> connections;
    for (int c = 0; c < kIdleConnections; ++c) {
      LC_ASSIGN_OR_RETURN(connections.emplace_back(), HttpClient::Connect(server->http_address()));
      LC_RETURN_IF_ERROR(connections.back()->Get("/collections"));
    }
    LC_ASSIGN_OR_RETURN(const int64_t after, MemoryOf(server->pid(), "VmRSS"));
    grown.push_back(static_cast<double>(after - before) / kMiB);
  }
  report.AddAtMost(StrCat(kIdleConnections, " idle REST connections, memory"), Median(grown), "MiB", 20, Spread(grown));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchRest(const BenchOptions& options, Report& report) {
  const int64_t items = std::min<int64_t>(options.items, 100'000);
  const std::vector<float> rows = ClusteredVectors(items + kQueries, options.dimension, 500, 0.7, 11);
  const size_t gallery = static_cast<size_t>(items) * options.dimension;
  server::ServerConfig config;
  config.listen = config.http_listen = "127.0.0.1:0";
  config.engine.data_folder = options.folder + "/rest";
  {
    LC_ASSIGN_OR_RETURN(auto running, server::RunningServer::Start(config));
    LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = running->bound().grpc}));
    LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
    LC_RETURN_IF_ERROR(MakeCollection(*client, kCollection, options.dimension));
    LC_RETURN_IF_ERROR(LoadRows(*client, kCollection, std::span(rows).first(gallery), options.dimension, 0,
                                [](uint64_t id) { return StrCat("{\"title\": \"item ", id, "\", \"year\": 1980}"); }));
    v1::RebuildRequest rebuild;
    rebuild.set_collection(kCollection);
    rebuild.set_wait(true);
    LC_RETURN_IF_ERROR(client->RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status());
    const std::vector<Query> queries = MakeQueries(std::span(rows).subspan(gallery), options.dimension);
    for (const int clients : {1, 8, 32}) LC_RETURN_IF_ERROR(MeasureSearches(*running, queries, clients, report));
  }
  return MeasureIdle(options, report);
}

}  // namespace lightcone::bench
