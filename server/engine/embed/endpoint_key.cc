#include "server/engine/embed/endpoint_key.h"

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr int64_t kKeyFileBytesMax = 16 << 10;

absl::StatusOr<std::string> KeyIn(std::string text, const std::string& place) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const bool usable =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < '\x7f'; });
  if (usable) return text;
  return FailedPrecondition(place + " holds no key: one line of printable ASCII");
}

}  // namespace

absl::StatusOr<std::string> ReadEndpointKey(const EndpointManifest& endpoint, const EndpointOptions& options) {
  if (!endpoint.key_env.empty()) {
    const std::string place = StrCat("environment variable ", endpoint.key_env, " of the server");
    const char* const value = std::getenv(endpoint.key_env.c_str());
    if (value == nullptr) return FailedPrecondition(place + " is not set");
    return KeyIn(value, place);
  }
  if (endpoint.key_file.empty()) return std::string();
  const std::string place = StrCat("key file '", endpoint.key_file, "' in the folder of encoder.endpoint_keys");
  absl::StatusOr<std::string> text = ReadFile(options.keys_folder + "/" + endpoint.key_file, kKeyFileBytesMax);
  if (!text.ok()) return FailedPrecondition(place + " cannot be read");
  return KeyIn(*std::move(text), place);
}

}  // namespace lightcone::server
