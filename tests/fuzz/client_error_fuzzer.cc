// Any bytes as the details in a server's error trailer, as the error of a query and as a vector of an answer: the
// client's readers take or leave them, and the code stays.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "client/channel.h"
#include "client/client.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto code = static_cast<grpc::StatusCode>(1 + data[0] % 16);
  const std::string details(reinterpret_cast<const char*>(data) + 1, size - 1);
  const absl::Status status = lightcone::client::FromGrpc(grpc::Status(code, "message", details));
  if (static_cast<int>(status.code()) != static_cast<int>(code)) std::abort();
  lightcone::v1::PartError part;
  if (part.ParseFromString(details) && part.code() != 0 && lightcone::client::StatusOf(part).ok()) std::abort();
  lightcone::v1::Vector vector;
  if (vector.ParseFromString(details)) {
    const auto values = lightcone::client::VectorOf(vector);
    if (values.ok() && vector.has_f32_le() && values->size() * 4 != vector.f32_le().size()) std::abort();
  }
  return 0;
}
