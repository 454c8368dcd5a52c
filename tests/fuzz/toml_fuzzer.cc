// Any bytes as a configuration file: the reader, and every option's Set with every value that it finds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/toml.h"
#include "server/options/option_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone;          // NOLINT: a file of one function
  using namespace lightcone::server;  // NOLINT
  const auto entries = ParseToml(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!entries.ok()) return 0;
  for (const TomlEntry& entry : *entries) {
    const auto again = ParseToml("k = " + TomlQuoted(entry.value), "again");
    if (entry.value.find('\n') == std::string::npos && (!again.ok() || again->at(0).value != entry.value))
      __builtin_trap();
    const Option* option = FindOption(entry.key);
    if (option == nullptr) option = FindOption(NearestKey(entry.key));
    ServerConfig config;
    if (option->set(entry.value, &config).ok()) option->get(config);
  }
  return 0;
}
