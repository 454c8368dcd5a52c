#include "server/http/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr int kAcceptsPerTurn = 16;  // before the connections have their turn
constexpr std::chrono::milliseconds kPause{20};

int OpenReserve() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

// -1 with errno.
int ListenAt(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<int> OpenListeningSocket(const std::string& host, int port) {
  const auto refuse = [&](const std::string& reason) {
    return Unavailable(StrCat("cannot listen on '", host, ":", port, "' (http): ", reason));
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return refuse(StrCat("not an address of this machine: ", ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int fd = ListenAt(*address);
    if (fd >= 0) return fd;
    if (error == 0) error = errno;
  }
  return refuse(StrCat(std::strerror(error), error == EADDRINUSE ? "; is another server running?" : ""));
}

int PortOf(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  const bool v6 = name.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                  : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

Listener::Listener(int socket, boost::asio::io_context* io, Hooks hooks)
    : socket_(*io, socket), pause_(*io), hooks_(std::move(hooks)), reserve_(OpenReserve()) {}

void Listener::Close() {
  boost::system::error_code ignored;
  pause_.cancel();
  socket_.close(ignored);
  if (reserve_ >= 0) ::close(std::exchange(reserve_, -1));
}

void Listener::WaitForConnections() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error) AcceptSome();
  });
}

void Listener::AcceptSome() {
  if (!socket_.is_open()) return;
  if (reserve_ < 0) reserve_ = OpenReserve();
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int taken = ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (taken >= 0) {
      const int yes = 1;
      ::setsockopt(taken, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      hooks_.take(taken);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // Connections that were accepted just now have their turn before one of them gives way.
      if (i > 0) break;
      if (!FreeDescriptor()) return Pause();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
      return Pause();
    }
    // Any other error is one of a connection that was lost before it was accepted.
  }
  WaitForConnections();
}

bool Listener::FreeDescriptor() {
  if (hooks_.make_room()) return true;
  if (reserve_ < 0) return false;
  ::close(std::exchange(reserve_, -1));
  return true;
}

void Listener::Pause() {
  pause_.expires_after(kPause);
  pause_.async_wait([this](const boost::system::error_code& error) {
    if (!error) AcceptSome();
  });
}

}  // namespace lightcone::server
