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

// Whether only this machine reaches the address: a Unix socket, localhost, 127.0.0.0/8 or ::1.
bool IsLoopback(const Address& address);

// INVALID_ARGUMENT naming `field`.
absl::StatusOr<Address> ParseAddress(std::string_view text, std::string_view field);

// UNAVAILABLE names the address and the system's reason when nothing can listen there now. gRPC gives no reason.
// Another process may take the address after this check, which costs the better message only.
absl::Status CheckFree(const Address& address);

}  // namespace lightcone::server
