// From flags, environment and file to a ServerConfig: flag over environment over file over default.
// Threads: pure functions, but for ProcessEnvironment, which reads this process' environment.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/options/config.h"

namespace CLI {
class App;
}

namespace lightcone::server {

// Flags of the command line. CLI11 fills them while it parses. They must outlive the parse.
struct ServerFlags {
  std::map<std::string, std::string> values;  // key -> value of the flags that were given
  std::string config_file;                    // --config; empty: LIGHTCONE_CONFIG, else none
  bool print_config = false;                  // --print-config
};

// Adds one flag an option ("--limits-k-max"), and --config and --print-config.
void AddServerFlags(CLI::App* app, ServerFlags* flags);

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

struct ResolvedConfig {
  ServerConfig config;
  std::map<std::string, std::string> sources;  // key -> "default", "file PATH:LINE", "environment NAME", "flag --x"
};

// INVALID_ARGUMENT names key, value, what is allowed and the source. For an unknown key of the file it names the line
// and the nearest known key. Unknown LIGHTCONE_ variables are ignored. NOT_FOUND when the file does not exist.
absl::StatusOr<ResolvedConfig> ResolveConfig(const ServerFlags& flags, const Environment& environment);

// All effective values as a TOML file that gives the same config again; the source of each as a comment.
std::string PrintConfig(const ResolvedConfig& resolved);

}  // namespace lightcone::server
