// The other ends of HTTP connections, for benchmarks: a client that keeps its connection, and an endpoint that embeds
// texts as slowly as it is told to.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lightcone::bench {

// One connection. Threads: one caller at a time.
class HttpClient {
 public:
  // "127.0.0.1:7701"
  static absl::StatusOr<std::unique_ptr<HttpClient>> Connect(const std::string& address);
  // The body of an answer with status 200; UNAVAILABLE tells of another.
  absl::StatusOr<std::string> Post(const std::string& path, const std::string& json);
  absl::Status Get(const std::string& path);

 private:
  HttpClient() : socket_(io_) {}

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string host_;
};

// Speaks OpenAI's /v1/embeddings on the loopback. Threads: every method is safe from any thread.
class SlowEndpoint {
 public:
  // Each request takes `pause`, and each of its texts `pause_per_text` more.
  SlowEndpoint(int dimension, std::chrono::microseconds pause, std::chrono::microseconds pause_per_text);
  ~SlowEndpoint();  // REQUIRES: its clients have closed their connections.
  SlowEndpoint(const SlowEndpoint&) = delete;
  SlowEndpoint& operator=(const SlowEndpoint&) = delete;

  std::string host() const;

  struct Use {
    int64_t texts = 0;
    double wall_s = 0;      // from the first request's begin to the last one's end
    double busy_s = 0;      // of these, with at least one request under way
    double requests_s = 0;  // sum of the requests' times
  };
  // What has come since the last call.
  Use TakeUse();

 private:
  using Clock = std::chrono::steady_clock;

  void Accept();
  void Serve(boost::asio::ip::tcp::socket socket);
  void Begin();
  void End(int64_t texts);

  const int dimension_;
  const std::chrono::microseconds pause_, pause_per_text_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::mutex mu_;
  int running_ = 0;
  Use use_;
  Clock::time_point first_, changed_;
  std::vector<std::thread> threads_;  // of connections; touched by the thread that accepts, and at the end
  std::atomic<bool> ending_{false};
  std::thread accepting_;
};

}  // namespace lightcone::bench
