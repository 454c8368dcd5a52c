// The bytes of one connection, in clear or encrypted. No method waits.
// Threads: belongs to the thread that serves every connection.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// A transport that encrypts reads and writes on the same socket, and may want a write while it reads.
class Transport {
 public:
  virtual ~Transport() = default;
  // Goes on with the handshake. kBytes: it is done, and the connection may be used.
  virtual Moved ShakeHands() = 0;
  // Names in the client's verified certificate; empty: it showed none.
  virtual std::vector<std::string> ClientNames() const = 0;
  virtual Transfer Read(char* out, size_t size) = 0;
  virtual Transfer Write(const char* bytes, size_t size) = 0;
  // Tells the client that nothing more comes.
  virtual void EndSending() = 0;
};

// Bytes in clear. The caller owns the socket, which must not block.
std::unique_ptr<Transport> PlainTransport(int socket);

// Makes the transport of a new connection. The caller owns the socket, which must not block.
using MakeTransport = std::function<std::unique_ptr<Transport>(int socket)>;

}  // namespace lightcone::server
