// Arbitrary text as a listening address: parsed or refused; what was parsed is printed as an address again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/rpc/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = lightcone::server::ParseAddress(text, "listen");
  if (!address.ok()) return 0;
  if (address->is_unix != text.starts_with("unix:")) std::abort();
  if (address->is_unix) {
    if (address->path.empty()) std::abort();
    return 0;
  }
  if (address->port < 0 || address->port > 65535) std::abort();
  const std::string printed = address->printed_host + ":" + std::to_string(address->port);
  const auto again = lightcone::server::ParseAddress(printed, "listen");
  if (!again.ok() || again->host != address->host || again->port != address->port) std::abort();
  return 0;
}
