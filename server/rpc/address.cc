#include "server/rpc/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kAllowed = "HOST:PORT (port 0: any free one), [IPV6]:PORT or unix:/path";

absl::Status CheckUnix(const Address& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::OkStatus();
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), address.path.size());
  // gRPC removes a socket file that is in its way: harmless when it is stale, theft when somebody listens.
  const bool taken = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  close(fd);
  if (taken) return Unavailable(StrCat("cannot listen on 'unix:", address.path, "': another process listens there"));
  return absl::OkStatus();
}

}  // namespace

bool IsLoopback(const Address& address) {
  if (address.is_unix || address.host == "localhost") return true;
  in_addr four = {};
  if (inet_pton(AF_INET, address.host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six = {};
  return inet_pton(AF_INET6, address.host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

absl::StatusOr<Address> ParseAddress(std::string_view text, std::string_view field) {
  Address out;
  const std::string shown = StrCat("'", text, "'");
  if (text.starts_with("unix:")) {
    out.is_unix = true;
    out.path = std::string(text.substr(5));
    if (out.path.empty() || out.path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return InvalidField(field, shown,
                          StrCat("unix: and a path of 1 .. ", sizeof(sockaddr_un{}.sun_path) - 1, " bytes"));
    }
    return out;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return InvalidField(field, shown, kAllowed);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || out.port < 0 || out.port > 65535) {
    return InvalidField(field, shown, kAllowed);
  }
  out.printed_host = std::string(text.substr(0, colon));
  out.host = out.printed_host;
  if (out.host.front() == '[') {
    if (out.host.back() != ']') return InvalidField(field, shown, kAllowed);
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return InvalidField(field, shown, kAllowed);
  }
  return out;
}

absl::Status CheckFree(const Address& address) {
  if (address.is_unix) return CheckUnix(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = StrCat(address.port);
  const int resolved = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  const std::string shown = StrCat(address.printed_host, ":", address.port);
  if (resolved != 0) {
    return Unavailable(StrCat("cannot listen on '", shown, "': ", std::string(gai_strerror(resolved))));
  }
  absl::Status status;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
      const int error = errno;
      status = Unavailable(StrCat("cannot listen on '", shown, "': ", std::string(std::strerror(error)),
                                  error == EADDRINUSE ? "; is another server running?" : ""));
    }
    close(fd);
  }
  freeaddrinfo(found);
  return status;
}

}  // namespace lightcone::server
