// The other end of a connection, as text. Threads: pure functions.
#pragma once

#include <string>

namespace lightcone::server {

// "ipv4:10.0.0.7:5123" or "ipv6:[::1]:5123". IPv4 is written as gRPC does, so that failures on both ports count
// together; an IPv4 client of an IPv6 socket is one of IPv4. "unknown" when the client has hung up.
std::string PeerOf(int socket);

}  // namespace lightcone::server
