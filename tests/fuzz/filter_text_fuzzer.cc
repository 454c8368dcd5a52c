// Arbitrary text as a filter: parsed into a message that travels, or refused with a message that shows the text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/status.h"
#include "cli/formats/filter_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto filter = lightcone::cli::ParseFilter(text);
  if (!filter.ok()) {
    if (filter.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    if (lightcone::MessageOf(filter.status()).find("column ") == std::string::npos) std::abort();
    return 0;
  }
  lightcone::v1::Filter again;
  if (!again.ParseFromString(filter->SerializeAsString())) std::abort();
  return 0;
}
