// What one client, and all of them together, can take from the HTTP port. Threads: a plain value.
#pragma once

#include <chrono>
#include <cstddef>

namespace lightcone::server {

struct HttpLimits {
  size_t connections_max = 1'024;             // and at most a quarter of the descriptors that the process may open
  size_t head_bytes_max = 64 << 10;           // request line and headers, with the cookies of a whole host
  size_t held_bytes_max = size_t{256} << 20;  // bodies and answers of all connections
  size_t calls_queued_max = 32;               // requests of a lane that wait for a thread
  int call_threads = 8;                       // of the lane kCalls

  std::chrono::milliseconds handshake{10'000};  // wait for the end of a handshake of TLS
  std::chrono::milliseconds idle{60'000};       // wait for a request
  std::chrono::milliseconds head{10'000};       // wait for a head, from its first byte to its last
  std::chrono::milliseconds progress{10'000};   // wait for each progress_bytes of a body or an answer
  size_t progress_bytes = 64 << 10;
  std::chrono::milliseconds linger{2'000};  // wait for the client's end after the server's
  size_t linger_bytes_max = 16 << 20;       // bytes that are read, and dropped, meanwhile
  std::chrono::milliseconds end{1'000};     // for answers under way when the server ends
};

}  // namespace lightcone::server
