// What encryption costs: gRPC searches a second over connections that stay open, with TLS and client certificates and
// without, beside each other over the same items.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "client/client.h"
#include "server/app/serve.h"
#include "tests/support/authority.h"

namespace lightcone::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Clients = std::vector<std::unique_ptr<client::Client>>;

constexpr char kCollection[] = "gallery";
constexpr int kQueries = 500;
constexpr int kRounds = 7;
constexpr auto kWindow = std::chrono::seconds(2);
constexpr double kRatioMin = 0.75;

// A server of this process and what its clients need.
struct World {
  std::unique_ptr<server::RunningServer> running;
  client::ClientOptions client;
};

absl::StatusOr<World> Serve(const BenchOptions& options, bool encrypted, std::span<const float> rows) {
  World world;
  server::ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http_listen.clear();
  config.engine.data_folder = options.folder + (encrypted ? "/encrypted" : "/plain");
  if (encrypted) {
    const Authority authority;
    const Authority::Pair server = authority.Issue("localhost"), caller = authority.Issue("caller");
    const auto write = [&](const std::string& name, const std::string& text) {
      return WriteFileAtomically(StrCat(options.folder, "/", name), text);
    };
    LC_RETURN_IF_ERROR(write("ca.pem", authority.certificate()));
    LC_RETURN_IF_ERROR(write("server.pem", server.certificate));
    LC_RETURN_IF_ERROR(write("server.key", server.key));
    LC_RETURN_IF_ERROR(write("caller.pem", caller.certificate));
    LC_RETURN_IF_ERROR(write("caller.key", caller.key));
    config.tls = {.certificate_file = options.folder + "/server.pem",
                  .key_file = options.folder + "/server.key",
                  .client_ca_file = options.folder + "/ca.pem"};
    world.client.ca_file = options.folder + "/ca.pem";
    world.client.cert_file = options.folder + "/caller.pem";
    world.client.key_file = options.folder + "/caller.key";
  }
  LC_ASSIGN_OR_RETURN(world.running, server::RunningServer::Start(config));
  world.client.address = world.running->bound().grpc;
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect(world.client));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
  LC_RETURN_IF_ERROR(MakeCollection(*client, kCollection, options.dimension));
  LC_RETURN_IF_ERROR(LoadRows(*client, kCollection, rows, options.dimension, 0,
                              [](uint64_t id) { return StrCat("{\"title\": \"item ", id, "\"}"); }));
  v1::RebuildRequest rebuild;
  rebuild.set_collection(kCollection);
  rebuild.set_wait(true);
  LC_RETURN_IF_ERROR(client->RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status());
  return world;
}

absl::StatusOr<Clients> Connect(const World& world, int clients) {
  Clients made;
  for (int c = 0; c < clients; ++c) {
    LC_ASSIGN_OR_RETURN(made.emplace_back(), client::Client::Connect(world.client));
    LC_RETURN_IF_ERROR(made.back()->WaitUntilServing(absl::Seconds(60)));
  }
  return made;
}

// Searches a second of clients that ask one query after the other.
absl::StatusOr<double> Ask(const Clients& clients, const std::vector<v1::SearchRequest>& queries) {
  std::atomic<int64_t> calls{0}, failed{0};
  const Clock::time_point start = Clock::now(), end = start + kWindow;
  {
    std::vector<std::jthread> threads;
    for (size_t c = 0; c < clients.size(); ++c) {
      threads.emplace_back([&, c] {
        for (size_t q = c; Clock::now() < end && failed == 0; q = (q + 7) % queries.size(), ++calls) {
          failed += !clients[c]->Search(queries[q]).ok();
        }
      });
    }
  }
  if (failed > 0) return Internal("a search failed");
  return static_cast<double>(calls) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

absl::Status BenchTls(const BenchOptions& options, Report& report) {
  const int64_t items = std::min<int64_t>(options.items, 100'000);
  const std::vector<float> rows = ClusteredVectors(items + kQueries, options.dimension, 500, 0.7, 11);
  const size_t gallery = static_cast<size_t>(items) * options.dimension;
  std::vector<v1::SearchRequest> queries(kQueries);
  for (size_t q = 0; q < queries.size(); ++q) {
    queries[q].set_collection(kCollection);
    queries[q].set_k(10);
    queries[q].set_with_payload(true);
    client::SetVector(rows.data() + gallery + q * options.dimension, options.dimension,
                      queries[q].add_queries()->mutable_vector());
  }
  LC_ASSIGN_OR_RETURN(const World plain, Serve(options, false, std::span(rows).first(gallery)));
  LC_ASSIGN_OR_RETURN(const World encrypted, Serve(options, true, std::span(rows).first(gallery)));
  for (const int clients : {1, 8}) {
    LC_ASSIGN_OR_RETURN(const Clients in_the_open, Connect(plain, clients));
    LC_ASSIGN_OR_RETURN(const Clients by_tls, Connect(encrypted, clients));
    std::vector<double> with, without, ratios;
    for (int round = 0; round <= kRounds; ++round) {
      LC_ASSIGN_OR_RETURN(const double one, Ask(by_tls, queries));
      LC_ASSIGN_OR_RETURN(const double other, Ask(in_the_open, queries));
      if (round == 0) continue;  // warm-up
      with.push_back(one);
      without.push_back(other);
      ratios.push_back(one / other);
    }
    report.Add(
        {.name = StrCat("gRPC top-10 searches with payloads by mutual TLS, connections that stay open: ", clients),
         .value = Median(with),
         .unit = "queries/s",
         .peer = "without TLS",
         .peer_value = Median(without),
         .ratio = Median(ratios),
         .goal = "ratio >= 0.75",
         .met = Median(ratios) >= kRatioMin,
         .spread = Spread(ratios)});
  }
  return absl::OkStatus();
}

}  // namespace lightcone::bench
