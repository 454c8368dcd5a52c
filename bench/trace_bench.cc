// What traces cost: gRPC searches a second whose spans all go to a collector, beside the same searches without any.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <thread>

#include "base/status.h"
#include "base/trace.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/load.h"
#include "client/client.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "server/app/serve.h"

namespace lightcone::bench {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr char kCollection[] = "gallery";
constexpr int kQueries = 500;
constexpr int kClients = 8;
constexpr int kRounds = 9;
constexpr auto kWindow = std::chrono::seconds(2);
constexpr double kRatioMin = 0.98;

// Takes whatever is posted to it over one connection, without a look at it.
class Sink {
 public:
  Sink() : acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)) {
    thread_ = std::thread([this] { Serve(); });
  }
  // REQUIRES: its client has closed the connection, or has made none.
  ~Sink() {
    boost::system::error_code ignored;
    tcp::socket last(io_);  // wakes the thread where nobody has connected
    last.connect(acceptor_.local_endpoint(), ignored);
    last.close(ignored);
    thread_.join();
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  std::string url() const { return StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port(), "/v1/traces"); }
  int64_t bytes() const { return bytes_; }

 private:
  void Serve() {
    boost::system::error_code error;
    tcp::socket socket(io_);
    acceptor_.accept(socket, error);
    boost::beast::flat_buffer buffer;
    while (!error) {
      http::request_parser<http::string_body> request;
      request.body_limit(uint64_t{1} << 30);  // Boost 1.74 takes none for no byte at all.
      http::read(socket, buffer, request, error);
      if (error) return;
      bytes_ += static_cast<int64_t>(request.get().body().size());
      http::response<http::string_body> answer(http::status::ok, 11);
      answer.body() = "{}";
      answer.prepare_payload();
      http::write(socket, answer, error);
    }
  }

  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  std::atomic<int64_t> bytes_{0};
  std::thread thread_;
};

// Searches a second of clients that ask one query after the other. Both kinds send the header.
absl::StatusOr<double> Ask(const std::vector<std::unique_ptr<v1::Retrieval::Stub>>& stubs,
                           const std::vector<v1::SearchRequest>& queries, bool traced) {
  const std::string header = FormatTraceParent({{1, 2}, 3, traced});
  std::atomic<int64_t> calls{0}, failed{0};
  const Clock::time_point start = Clock::now(), end = start + kWindow;
  {
    std::vector<std::jthread> threads;
    for (size_t c = 0; c < stubs.size(); ++c) {
      threads.emplace_back([&, c] {
        for (size_t q = c; Clock::now() < end && failed == 0; q = (q + 7) % queries.size(), ++calls) {
          grpc::ClientContext context;
          context.AddMetadata("traceparent", header);
          v1::SearchResponse response;
          failed += !stubs[c]->Search(&context, queries[q], &response).ok();
        }
      });
    }
  }
  if (failed > 0) return Internal("a search failed");
  return static_cast<double>(calls) / std::chrono::duration<double>(Clock::now() - start).count();
}

absl::Status Fill(const std::string& address, std::span<const float> rows, int dimension) {
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = address}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
  LC_RETURN_IF_ERROR(MakeCollection(*client, kCollection, dimension));
  LC_RETURN_IF_ERROR(LoadRows(*client, kCollection, rows, dimension, 0,
                              [](uint64_t id) { return StrCat("{\"title\": \"item ", id, "\"}"); }));
  v1::RebuildRequest rebuild;
  rebuild.set_collection(kCollection);
  rebuild.set_wait(true);
  return client->RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status();
}

}  // namespace

absl::Status BenchTraces(const BenchOptions& options, Report& report) {
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
  Sink sink;
  server::ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http_listen.clear();
  config.engine.data_folder = options.folder + "/traces";
  config.trace.endpoint = sink.url();
  LC_ASSIGN_OR_RETURN(auto running, server::RunningServer::Start(config));
  LC_RETURN_IF_ERROR(Fill(running->bound().grpc, std::span(rows).first(gallery), options.dimension));
  std::vector<std::unique_ptr<v1::Retrieval::Stub>> stubs;
  for (int c = 0; c < kClients; ++c) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stubs.push_back(v1::Retrieval::NewStub(
        grpc::CreateCustomChannel(running->bound().grpc, grpc::InsecureChannelCredentials(), own)));
  }
  std::vector<double> traced, plain, ratios;
  for (int round = 0; round <= kRounds; ++round) {
    LC_ASSIGN_OR_RETURN(const double with, Ask(stubs, queries, true));
    LC_ASSIGN_OR_RETURN(const double without, Ask(stubs, queries, false));
    if (round == 0) continue;  // warm-up
    traced.push_back(with);
    plain.push_back(without);
    ratios.push_back(with / without);
  }
  running->Stop(absl::Seconds(10));
  if (sink.bytes() == 0) return Internal("no span came to the collector");
  report.Add({.name = StrCat("gRPC top-10 searches with payloads, all of them traced, ", kClients, " clients"),
              .value = Median(traced),
              .unit = "queries/s",
              .peer = "none of them traced",
              .peer_value = Median(plain),
              .ratio = Median(ratios),
              .goal = "ratio >= 0.98",
              .met = Median(ratios) >= kRatioMin,
              .spread = Spread(ratios)});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
