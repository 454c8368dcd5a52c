// Any text as a file of keys: what is read keeps the rules of a line, and is written and read again as the same keys.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/auth/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server::auth;  // NOLINT: a file of one function
  const auto keys = ParseKeys(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!keys.ok()) {
    if (!absl::IsInvalidArgument(keys.status())) std::abort();
    return 0;
  }
  if (keys->size() > kKeysMax) std::abort();
  std::string text;
  for (const KeyEntry& entry : *keys) {
    if (!CheckKey(entry).ok()) std::abort();
    // Years beyond four digits have more than one spelling.
    const bool plain =
        entry.expires >= absl::FromUnixSeconds(0) && entry.expires < absl::FromUnixSeconds(4'000'000'000);
    if (!plain && entry.expires != absl::InfiniteFuture()) return 0;
    text += LineOf(entry) + "\n";
  }
  const auto again = ParseKeys(text);
  if (!again.ok() || again->size() != keys->size()) std::abort();
  std::string twice;
  for (size_t i = 0; i < keys->size(); ++i) {
    const KeyEntry &one = (*keys)[i], &other = (*again)[i];
    if (one.name != other.name || one.hash != other.hash || one.certificate != other.certificate) std::abort();
    if (!(one.grant.scopes == other.grant.scopes) || one.grant.collections != other.grant.collections) std::abort();
    if (one.limits != other.limits) std::abort();
    twice += LineOf(other) + "\n";
  }
  if (text != twice) std::abort();  // times to the second
  return 0;
}
