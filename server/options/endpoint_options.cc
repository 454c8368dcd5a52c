#include "server/options/endpoint_options.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr char kHosts[] = "encoder.endpoint_hosts";
constexpr char kKeys[] = "encoder.endpoint_keys";

std::string HostsOf(const ServerConfig& config) {
  std::string text;
  for (const std::string& host : config.engine.endpoints.hosts) text += (text.empty() ? "" : ",") + host;
  return text;
}

// Whether each is a host is checked with the engine's options.
absl::Status SetHosts(std::string_view value, ServerConfig* config) {
  std::vector<std::string> hosts;
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    if (comma == 0 || comma + 1 == value.size()) {
      return InvalidField(kHosts, "a list with an empty host", "HOST or HOST:PORT with ',' between them, or empty");
    }
    hosts.emplace_back(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  config->engine.endpoints.hosts = std::move(hosts);
  return absl::OkStatus();
}

absl::Status SetKeysFolder(std::string_view value, ServerConfig* config) {
  if (!value.empty() && value[0] != '/') {
    return InvalidField(kKeys, StrCat("'", value, "'"), "an absolute folder, or empty for none");
  }
  config->engine.endpoints.keys_folder = std::string(value);
  return absl::OkStatus();
}

}  // namespace

void AddEndpointOptions(std::vector<Option>* out) {
  Option hosts;
  hosts.key = kHosts;
  hosts.is_text = true;
  hosts.allowed = "HOST or HOST:PORT with ',' between them, or empty for none";
  hosts.help =
      "Hosts that the server may call for generations whose encoder is an endpoint. A host without a port stands for "
      "port 80 of http and 443 of https. Empty: none.";
  hosts.when = "List the servers of your text models. Whoever may register a generation can have texts sent there.";
  hosts.get = HostsOf;
  hosts.set = SetHosts;
  out->push_back(std::move(hosts));
  Option keys;
  keys.key = kKeys;
  keys.is_text = true;
  keys.allowed = "an absolute folder, or empty for none";
  keys.help = "Folder with the keys of endpoints, one a file, which manifests name by key_file. Empty: no such keys.";
  keys.when = "Set it where an endpoint wants a key. Put nothing else into the folder.";
  keys.get = [](const ServerConfig& config) { return config.engine.endpoints.keys_folder; };
  keys.set = SetKeysFolder;
  out->push_back(std::move(keys));
}

}  // namespace lightcone::server
