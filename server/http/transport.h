// The bytes of one connection, in clear or encrypted. No method waits.
// Threads: belongs to the thread that serves every connection.
#pragma once

#include <cstddef>
#include <memory>

namespace lightcone::server {

// How a read or a write ended.
enum class Moved {
  kBytes,      // some bytes moved
  kWantRead,   // nothing moved, until the socket is readable
  kWantWrite,  // nothing moved, until the socket is writable
  kEnd,        // the client sends nothing more
  kBroken,     // the connection is lost
};

struct Transfer {
  Moved how = Moved::kBroken;
  size_t bytes = 0;  // number of bytes that moved
};

// A transport that encrypts reads and writes on the same socket, and wants a read or a write while it shakes hands.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Transfer Read(char* out, size_t size) = 0;
  virtual Transfer Write(const char* bytes, size_t size) = 0;
  // Tells the client that nothing more comes.
  virtual void EndSending() = 0;
};

// Bytes in clear. The caller owns the socket, which must not block.
std::unique_ptr<Transport> PlainTransport(int socket);

}  // namespace lightcone::server
