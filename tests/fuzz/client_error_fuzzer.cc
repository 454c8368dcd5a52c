// Any bytes as the details in a server's error trailer: the client's reader takes or leaves them, and the code stays.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "client/channel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto code = static_cast<grpc::StatusCode>(1 + data[0] % 16);
  const std::string details(reinterpret_cast<const char*>(data) + 1, size - 1);
  const absl::Status status = lightcone::client::FromGrpc(grpc::Status(code, "message", details));
  if (static_cast<int>(status.code()) != static_cast<int>(code)) std::abort();
  return 0;
}
