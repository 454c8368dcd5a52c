// Listening addresses: HOST:PORT, [IPv6]:PORT or unix:/path. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lightcone::server {

struct Address {
  bool is_unix = false;
  std::string path;          // unix
  std::string host;          // host without brackets
  std::string printed_host;  // host with brackets where needed
  int port = 0;              // 0: any
};

// INVALID_ARGUMENT naming `field`.
absl::StatusOr<Address> ParseAddress(std::string_view text, std::string_view field);

// UNAVAILABLE naming the address and the system's reason when it cannot be listened on now. gRPC itself gives no
// reason; the race between this look and the listening only costs the better message.
absl::Status CheckFree(const Address& address);

}  // namespace lightcone::server
