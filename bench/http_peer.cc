#include "bench/http_peer.h"

#include <boost/asio/connect.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"

namespace lightcone::bench {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using Error = boost::system::error_code;

absl::StatusOr<std::string> Exchange(tcp::socket& socket, const http::request<http::string_body>& request) {
  Error error;
  http::write(socket, request, error);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(1 << 30);
  if (!error) http::read(socket, buffer, parser, error);
  if (error) return Unavailable(StrCat("HTTP: ", error.message()));
  if (parser.get().result_int() == 200) return std::move(parser.get().body());
  return Unavailable(StrCat("HTTP ", parser.get().result_int(), ": ", parser.get().body()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Connect(const std::string& address) {
  std::unique_ptr<HttpClient> client(new HttpClient());
  const size_t colon = address.rfind(':');
  client->host_ = address;
  Error error;
  tcp::resolver resolver(client->io_);
  const auto found = resolver.resolve(address.substr(0, colon), address.substr(colon + 1), error);
  if (!error) boost::asio::connect(client->socket_, found, error);
  if (!error) client->socket_.set_option(tcp::no_delay(true), error);
  if (error) return Unavailable(StrCat("connect to ", address, ": ", error.message()));
  return client;
}

absl::StatusOr<std::string> HttpClient::Post(const std::string& path, const std::string& json) {
  http::request<http::string_body> request(http::verb::post, path, 11);
  request.set(http::field::host, host_);
  request.set(http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  return Exchange(socket_, request);
}

absl::Status HttpClient::Get(const std::string& path) {
  http::request<http::string_body> request(http::verb::get, path, 11);
  request.set(http::field::host, host_);
  return Exchange(socket_, request).status();
}

SlowEndpoint::SlowEndpoint(int dimension, std::chrono::microseconds pause, std::chrono::microseconds pause_per_text)
    : dimension_(dimension),
      pause_(pause),
      pause_per_text_(pause_per_text),
      acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)) {
  accepting_ = std::thread([this] { Accept(); });
}

SlowEndpoint::~SlowEndpoint() {
  ending_ = true;
  Error ignored;
  tcp::socket last(io_);  // wakes the thread that accepts
  last.connect(acceptor_.local_endpoint(), ignored);
  last.close(ignored);
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::string SlowEndpoint::host() const { return StrCat("127.0.0.1:", acceptor_.local_endpoint().port()); }

void SlowEndpoint::Accept() {
  while (!ending_) {
    Error error;
    tcp::socket socket(io_);
    acceptor_.accept(socket, error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);
    threads_.emplace_back([this, socket = std::move(socket)]() mutable { Serve(std::move(socket)); });
  }
}

void SlowEndpoint::Serve(tcp::socket socket) {
  boost::beast::flat_buffer buffer;
  Error error;
  while (!error) {
    http::request<http::string_body> request;
    http::read(socket, buffer, request, error);
    if (error) return;
    Begin();
    const auto asked = nlohmann::json::parse(request.body(), nullptr, /*allow_exceptions=*/false);
    const size_t texts = asked.contains("input") ? asked["input"].size() : 0;
    std::this_thread::sleep_for(pause_ + pause_per_text_ * texts);
    nlohmann::json data = nlohmann::json::array();
    for (size_t i = 0; i < texts; ++i) {
      std::vector<float> vector(static_cast<size_t>(dimension_));
      auto state = static_cast<uint32_t>(std::hash<std::string>()(asked["input"][i].get<std::string>()));
      for (float& x : vector) x = static_cast<float>((state = state * 1'664'525 + 1'013'904'223) >> 8) / 1e7f - 0.8f;
      data.push_back({{"index", i}, {"embedding", std::move(vector)}});
    }
    http::response<http::string_body> answer(http::status::ok, 11);
    answer.set(http::field::content_type, "application/json");
    answer.body() = nlohmann::json({{"data", std::move(data)}}).dump();
    answer.prepare_payload();
    End(static_cast<int64_t>(texts));
    http::write(socket, answer, error);
  }
}

void SlowEndpoint::Begin() {
  const std::lock_guard lock(mu_);
  const Clock::time_point now = Clock::now();
  if (use_.texts == 0 && running_ == 0) first_ = now;
  if (running_ > 0) use_.busy_s += std::chrono::duration<double>(now - changed_).count();
  use_.requests_s += running_ * std::chrono::duration<double>(now - changed_).count();
  changed_ = now;
  ++running_;
}

void SlowEndpoint::End(int64_t texts) {
  const std::lock_guard lock(mu_);
  const Clock::time_point now = Clock::now();
  const double passed = std::chrono::duration<double>(now - changed_).count();
  use_.busy_s += passed;
  use_.requests_s += running_ * passed;
  changed_ = now;
  --running_;
  use_.texts += texts;
  use_.wall_s = std::chrono::duration<double>(now - first_).count();
}

SlowEndpoint::Use SlowEndpoint::TakeUse() {
  const std::lock_guard lock(mu_);
  return std::exchange(use_, Use());
}

}  // namespace lightcone::bench
