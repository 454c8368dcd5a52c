// Scroll tokens come from outside: a token that is accepted is exactly one that was given out.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/engine/search/scroll_token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto token = DecodeScrollToken(bytes);
  if (token.ok() && EncodeScrollToken(*token) != bytes) abort();
  const ScrollToken made{static_cast<uint32_t>(size), std::string(bytes.substr(0, 1024))};
  const auto again = DecodeScrollToken(EncodeScrollToken(made));
  if (!again.ok() || again->last_key != made.last_key) abort();
  return 0;
}
