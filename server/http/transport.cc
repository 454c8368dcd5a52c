#include "server/http/transport.h"

#include <sys/socket.h>

#include <cerrno>

namespace lightcone::server {
namespace {

class Plain final : public Transport {
 public:
  explicit Plain(int socket) : socket_(socket) {}

  Moved ShakeHands() override { return Moved::kBytes; }
  std::vector<std::string> ClientNames() const override { return {}; }

  Transfer Read(char* out, size_t size) override {
    for (;;) {
      const ssize_t got = ::recv(socket_, out, size, MSG_DONTWAIT);
      if (got > 0) return {Moved::kBytes, static_cast<size_t>(got)};
      if (got == 0) return {Moved::kEnd, 0};
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {Moved::kWantRead, 0};
      if (errno != EINTR) return {};
    }
  }

  Transfer Write(const char* bytes, size_t size) override {
    for (;;) {
      const ssize_t sent = ::send(socket_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) return {Moved::kBytes, static_cast<size_t>(sent)};
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {Moved::kWantWrite, 0};
      if (sent == 0 || errno != EINTR) return {};
    }
  }

  void EndSending() override { ::shutdown(socket_, SHUT_WR); }

 private:
  const int socket_;
};

}  // namespace

std::unique_ptr<Transport> PlainTransport(int socket) { return std::make_unique<Plain>(socket); }

}  // namespace lightcone::server
