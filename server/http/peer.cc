#include "server/http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/strings.h"

namespace lightcone::server {

std::string PeerOf(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) return "unknown";
  char text[INET6_ADDRSTRLEN] = {};
  if (name.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(name);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    return StrCat("ipv4:", text, ":", ntohs(four.sin_port));
  }
  if (name.ss_family != AF_INET6) return "unknown";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(name);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof(text));
    return StrCat("ipv4:", text, ":", ntohs(six.sin6_port));
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  return StrCat("ipv6:[", text, "]:", ntohs(six.sin6_port));
}

}  // namespace lightcone::server
