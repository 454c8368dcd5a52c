// Any text as the header `traceparent`: what is taken has ids, and is written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  const auto parent = lightcone::ParseTraceParent(header);
  if (!parent) return 0;
  if (parent->trace.empty() || parent->span == 0) std::abort();
  const std::string written = lightcone::FormatTraceParent(*parent);
  if (header.substr(2, 51) != std::string_view(written).substr(2, 51)) std::abort();  // between version and flags
  const auto again = lightcone::ParseTraceParent(written);
  if (!again || again->trace != parent->trace || again->span != parent->span) std::abort();
  if (again->sampled != parent->sampled) std::abort();
  return 0;
}
