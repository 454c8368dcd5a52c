#include "server/http/bounded_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "base/strings.h"

namespace lightcone::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSilence{1'000};  // wait for a client that has sent nothing yet
constexpr std::chrono::milliseconds kPatience{
    5'000};  // wait for one client in all, beside the time that its bytes pay for
constexpr size_t kBytesPerSecondMin = 128 << 10;
constexpr absl::Duration kGrace = absl::Seconds(1);  // for answers under way when the server ends

// One connection, read and written without blocking. Threads: belongs to one thread.
class BoundedStream final : public httplib::Stream {
 public:
  BoundedStream(int socket, const Connections* connections) : socket_(socket), connections_(connections) {}

  // The head has been read; so many bytes follow.
  void BeginBody(size_t bytes) { left_ = bytes; }

  // Reads what the client still sends, within its time. Closing over unread bytes would reset the connection, and the
  // client might not see the refusal.
  void Drain() {
    ::shutdown(socket_, SHUT_WR);
    left_ = kBodyBytesMax;
    char bytes[4'096];
    while (read(bytes, sizeof(bytes)) > 0) {
    }
  }

  ssize_t read(char* out, size_t size) override {
    if (left_ == 0) return -1;
    if (begin_ == end_) {
      const ssize_t got = Receive();
      if (got <= 0) return got;
      begin_ = 0;
      end_ = static_cast<size_t>(got);
    }
    const size_t taken = std::min({size, end_ - begin_, left_});
    std::memcpy(out, buffer_.data() + begin_, taken);
    begin_ += taken;
    left_ -= taken;
    return static_cast<ssize_t>(taken);
  }

  // Writes all bytes or returns -1, and from then on writes nothing: the library would send a page without its head.
  ssize_t write(const char* bytes, size_t size) override {
    for (size_t sent = 0; sent < size && !broken_;) {
      const ssize_t now = ::send(socket_, bytes + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (now > 0) {
        sent += static_cast<size_t>(now);
        moved_ += static_cast<size_t>(now);
      } else if (errno != EINTR && !((errno == EAGAIN || errno == EWOULDBLOCK) && Wait(POLLOUT))) {
        broken_ = true;
      }
    }
    return broken_ ? -1 : static_cast<ssize_t>(size);
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !broken_; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { port = 0; }
  // The library only refuses descriptors here that select(2) cannot watch. This stream polls, so it hides its own.
  socket_t socket() const override { return 0; }

 private:
  ssize_t Receive() {
    for (;;) {
      if (connections_->ending() || !Wait(POLLIN)) return -1;
      const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
      if (got > 0) moved_ += static_cast<size_t>(got);
      return got;
    }
  }

  // Waits until the client has sent or taken something, or has hung up. false: the client's time is over.
  bool Wait(short events) {
    const auto paid = std::chrono::milliseconds(1'000 * moved_ / kBytesPerSecondMin);
    const auto left = (moved_ == 0 ? kSilence : kPatience + paid) - waited_;
    if (left <= Clock::duration::zero()) return false;
    const Clock::time_point began = Clock::now();
    pollfd watched{socket_, events, 0};
    const int ready =
        ::poll(&watched, 1, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()) + 1);
    waited_ += Clock::now() - began;
    return ready > 0 || (ready < 0 && errno == EINTR);
  }

  const int socket_;
  const Connections* const connections_;
  std::array<char, 16 << 10> buffer_;
  size_t begin_ = 0, end_ = 0;   // range of the buffer that was not read yet
  size_t left_ = kHeadBytesMax;  // bytes that may still be read
  size_t moved_ = 0;             // bytes in both directions
  Clock::duration waited_{};
  bool broken_ = false;
};

struct Refusal {
  int status = 0;  // 0: none
  std::string reason;
};

// Why the body of a request is not read. Its size must be known before it is in memory. Sets `bytes` to the size.
Refusal RefusalOf(const httplib::Request& request, size_t* bytes) {
  *bytes = 0;
  if (request.has_header("Transfer-Encoding")) return {501, "Transfer-Encoding is not taken; send Content-Length"};
  if (request.has_header("Content-Encoding")) return {415, "Content-Encoding is not taken; send the body as it is"};
  if (request.is_multipart_form_data()) return {415, "multipart/form-data is not taken; send JSON or an image"};
  const size_t lengths = request.get_header_value_count("Content-Length");
  if (lengths == 0) {
    const bool bodiless = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
    return bodiless ? Refusal{} : Refusal{411, StrCat(request.method, " needs Content-Length")};
  }
  const std::string length = request.get_header_value("Content-Length");
  if (lengths > 1 || length.find_first_not_of("0123456789") != std::string::npos || length.empty()) {
    return {400, "Content-Length must be one number"};
  }
  uint64_t value = 0;
  if (!absl::SimpleAtoi(length, &value) || value > kBodyBytesMax) {
    return {413, StrCat("Content-Length is ", length, ", allowed: 0 .. ", kBodyBytesMax)};
  }
  *bytes = static_cast<size_t>(value);
  return {};
}

}  // namespace

bool Connections::Add(int socket) {
  absl::MutexLock lock(&mutex_);
  if (!ending_) open_.insert(socket);
  return !ending_;
}

void Connections::Remove(int socket) {
  absl::MutexLock lock(&mutex_);
  open_.erase(socket);
}

bool Connections::ending() const {
  absl::MutexLock lock(&mutex_);
  return ending_;
}

void Connections::End() {
  absl::MutexLock lock(&mutex_);
  ending_ = true;
  for (const int socket : open_) ::shutdown(socket, SHUT_RD);  // wakes readers
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&none), kGrace)) return;
  for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
}

BoundedServer::BoundedServer() {
  // The library asks this after the head and before the body.
  set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    size_t bytes = 0;
    const Refusal refusal = RefusalOf(request, &bytes);
    if (refusal.status == 0) return HandlerResponse::Unhandled;
    response.status = refusal.status;
    response.set_content(refusal.reason + "\n", "text/plain; charset=utf-8");
    return HandlerResponse::Handled;
  });
}

void BoundedServer::Stop() {
  stop();
  connections_.End();
}

// One request a connection.
bool BoundedServer::process_and_close_socket(socket_t socket) {
  bool answered = false;
  if (connections_.Add(socket)) {
    BoundedStream stream(socket, &connections_);
    bool hangs_up = false, refused = false;
    answered = process_request(stream, /*close_connection=*/true, hangs_up, [&](httplib::Request& request) {
      request.ranges.clear();  // Ranges could ask for a page's bytes a thousand times over.
      size_t bytes = 0;
      refused = RefusalOf(request, &bytes).status != 0;
      stream.BeginBody(bytes);
    });
    if (refused) stream.Drain();
    connections_.Remove(socket);
  }
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return answered;
}

}  // namespace lightcone::server
