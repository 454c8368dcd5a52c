// Any bytes as the head of an HTTP request. What is taken has a path and only whole escapes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/http/request_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;  // NOLINT: a file of one function
  const RequestHead head = ParseRequestHead(std::string_view(reinterpret_cast<const char*>(data), size));
  if (head.refusal == 0 && (!head.request.path.starts_with('/') || head.request.method.empty())) __builtin_trap();
  if (head.refusal != 0 && head.reason.empty()) __builtin_trap();
  return 0;
}
