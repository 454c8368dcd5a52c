// Any bytes as what a client sends over one connection: heads, bodies, pipelined requests, in chunks and with waits
// that the first two bytes decide. Whatever the chunks are, the server sees the same requests and writes the same
// answers; bodies are of the size that their heads told; what is held is given back; the connection ends.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/http/connection.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file

// How the bytes come: one number after the other.
class Chance {
 public:
  explicit Chance(uint32_t seed) : state_(seed * 2654435761U + 1) {}
  uint32_t Below(uint32_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_ % bound;
  }

 private:
  uint32_t state_;
};

// `seed` 0: everything at once, and no waits.
class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(std::string_view bytes, uint32_t seed, const Phase* phase, std::string* written)
      : bytes_(bytes), whole_(seed == 0), chance_(seed), phase_(phase), written_(written) {}

  Moved ShakeHands() override { return Waits() ? Moved::kWantRead : Moved::kBytes; }
  std::vector<std::string> ClientNames() const override { return {}; }
  Transfer Read(char* out, size_t size) override {
    if (size == 0) std::abort();  // it would look like a client that sends nothing
    if (bytes_.empty()) return {Moved::kEnd, 0};
    if (Waits()) return {chance_.Below(2) == 0 ? Moved::kWantRead : Moved::kWantWrite, 0};
    const size_t count = Count(std::min(size, bytes_.size()));
    std::copy_n(bytes_.data(), count, out);
    bytes_.remove_prefix(count);
    return {Moved::kBytes, count};
  }
  Transfer Write(const char* bytes, size_t size) override {
    const bool leave =
        *phase_ == Phase::kBody;  // "100 Continue" is written in whole, and not where a body came with it
    if (!leave && Waits()) return {Moved::kWantWrite, 0};
    const size_t count = leave ? size : Count(size);
    if (!leave) written_->append(bytes, count);
    return {Moved::kBytes, count};
  }
  void EndSending() override {}

 private:
  bool Waits() { return !whole_ && chance_.Below(4) == 0; }
  size_t Count(size_t most) {
    return whole_ ? most : 1 + chance_.Below(static_cast<uint32_t>(std::min<size_t>(most, 40)));
  }

  std::string_view bytes_;
  const bool whole_;
  Chance chance_;
  const Phase* const phase_;
  std::string* const written_;
};

class Owner final : public ConnectionOwner {
 public:
  Owner(boost::asio::io_context* io, bool later) : io_(io), later_(later) {
    limits_.head_bytes_max = 512;
    limits_.linger_bytes_max = 1 << 20;
    limits_.held_bytes_max = 64 << 10;
    limits_.progress_bytes = 64;
    table_.Add({.method = "GET", .pattern = "/a/{name}", .access = RouteAccess::Open()});
    table_.Add({.method = "POST", .pattern = "/a/{name}", .access = RouteAccess::Open(), .body_bytes_max = 2'000});
  }

  const HttpLimits& limits() const override { return limits_; }
  bool ending() const override { return false; }
  std::span<char> scratch() override { return scratch_; }
  const Route* RouteOf(HttpRequest* request, HttpAnswer* refusal) override {
    RouteTable::Match match = table_.Find(request->method, request->path);
    if (match.route == nullptr) *refusal = RefusalOf(match.allowed.empty() ? 404 : 405, match.allowed);
    request->parameters = std::move(match.parameters);
    return match.route;
  }
  void Handle(Connection* connection, const Route& route, HttpRequest request) override {
    if (request.body.size() > route.body_bytes_max) std::abort();
    seen.push_back(lightcone::StrCat(request.method, " ", request.path, " ", request.body));
    HttpAnswer answer{200, "text/plain", std::move(request.body)};
    if (!later_) return connection->Answer(std::move(answer));
    boost::asio::post(*io_, [self = connection->shared_from_this(), answer = std::move(answer)]() mutable {
      if (self->phase() != Phase::kHandling) std::abort();  // nobody else ends it
      self->Answer(std::move(answer));
      self->Run();
    });
  }
  bool HoldBody(size_t bytes) override {
    held += bytes;
    return true;
  }
  void HoldAnswer(const Connection&, size_t bytes) override { held += bytes; }
  void Release(size_t bytes) override {
    if (bytes > held) std::abort();
    held -= bytes;
  }
  void RecordPhase(Connection* connection, Phase before) override {
    if (before == Phase::kClosed) std::abort();
    phase = connection->phase();
  }

  std::vector<std::string> seen;
  size_t held = 0;
  Phase phase = Phase::kHandshake;

 private:
  boost::asio::io_context* const io_;
  const bool later_;
  HttpLimits limits_;
  RouteTable table_;
  std::array<char, 4'096> scratch_;
};

struct Told {
  std::vector<std::string> requests;
  std::string answers;
};

Told TellOver(std::string_view bytes, uint32_t seed) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) != 0) std::abort();
  if (::write(sockets[1], "x", 1) != 1) std::abort();  // Nobody reads it: the other socket is always ready.
  boost::asio::io_context io;
  Owner owner(&io, seed % 2 == 1);
  Told told;
  {
    const auto connection = std::make_shared<Connection>(
        1, sockets[0], std::make_unique<ScriptedTransport>(bytes, seed, &owner.phase, &told.answers), &io, &owner);
    connection->Start();
    while (owner.phase != Phase::kClosed && io.run_one() > 0) {
    }
  }
  ::close(sockets[1]);
  if (owner.phase != Phase::kClosed || owner.held != 0) std::abort();
  told.requests = std::move(owner.seen);
  return told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 1 << 14) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const uint32_t seed = 1U + data[0] + 256U * data[1];
  const Told whole = TellOver(bytes, 0), parts = TellOver(bytes, seed);
  if (whole.requests != parts.requests || whole.answers != parts.answers) std::abort();
  if (!whole.answers.empty() && !whole.answers.starts_with("HTTP/1.1 ")) std::abort();
  return 0;
}
