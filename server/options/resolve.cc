#include "server/options/resolve.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "base/toml.h"
#include "server/options/option_table.h"

namespace lightcone::server {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;

absl::Status Set(const Option& option, const std::string& value, std::string source, ResolvedConfig* out) {
  const absl::Status status = option.set(value, &out->config);
  if (!status.ok()) return Annotate(status, source);
  out->sources[option.key] = std::move(source);
  return absl::OkStatus();
}

absl::Status ReadConfigFile(const std::string& path, ResolvedConfig* out) {
  absl::StatusOr<std::string> text = ReadFile(path, kConfigBytesMax);
  if (!text.ok()) return Annotate(text.status(), "configuration file");
  LC_ASSIGN_OR_RETURN(const std::vector<TomlEntry> entries, ParseToml(*text, path));
  for (const TomlEntry& entry : entries) {
    const std::string where = StrCat(path, ":", entry.line);
    const Option* option = FindOption(entry.key);
    if (option == nullptr) {
      return Annotate(InvalidField("key", StrCat("'", entry.key, "'"),
                                   StrCat("known keys; did you mean '", NearestKey(entry.key), "'?")),
                      where);
    }
    if (option->is_text != entry.is_text) {
      return Annotate(InvalidField(entry.key, StrCat(entry.is_text ? "a text, '" : "a bare value, '", entry.value, "'"),
                                   option->is_text ? "a text in quotes" : "a number without quotes"),
                      where);
    }
    LC_RETURN_IF_ERROR(Set(*option, entry.value, StrCat("file ", where), out));
  }
  return absl::OkStatus();
}

}  // namespace

void AddServerFlags(CLI::App* app, ServerFlags* flags) {
  app->add_option("--config", flags->config_file, "TOML file with settings (environment LIGHTCONE_CONFIG)")
      ->type_name("FILE");
  app->add_flag("--print-config", flags->print_config,
                "Print all effective settings with their sources as TOML, and end");
  const ServerConfig defaults;
  for (const Option& option : OptionTable()) {
    const std::string unit = option.unit.empty() ? "" : StrCat(" [", option.unit, "]");
    const std::string help =
        StrCat(option.help, unit, " Allowed: ", option.allowed, ". Default: ", option.get(defaults), ".");
    CLI::Option* flag = app->add_option_function<std::string>(
        option.Flag(), [flags, key = option.key](const std::string& value) { flags->values[key] = value; }, help);
    flag->type_name(option.is_text ? "TEXT" : option.is_flag ? "" : "NUMBER")->group("Settings");
    if (option.is_flag) {
      flag->expected(0, 1);  // the value of a flag that stands alone is an empty text
    }
  }
}

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

absl::StatusOr<ResolvedConfig> ResolveConfig(const ServerFlags& flags, const Environment& environment) {
  ResolvedConfig out;
  for (const Option& option : OptionTable()) out.sources[option.key] = "default";
  std::string file = flags.config_file;
  if (file.empty()) file = environment("LIGHTCONE_CONFIG").value_or("");
  if (!file.empty()) LC_RETURN_IF_ERROR(ReadConfigFile(file, &out));
  for (const Option& option : OptionTable()) {
    const std::optional<std::string> value = environment(option.Environment());
    if (value.has_value()) {
      LC_RETURN_IF_ERROR(Set(option, *value, StrCat("environment ", option.Environment()), &out));
    }
  }
  for (const auto& [key, value] : flags.values) {
    const Option* option = FindOption(key);
    if (option == nullptr) return Internal(StrCat("flag of an unknown option '", key, "'"));
    LC_RETURN_IF_ERROR(
        Set(*option, value.empty() && option->is_flag ? "true" : value, StrCat("flag ", option->Flag()), &out));
  }
  return out;
}

std::string PrintConfig(const ResolvedConfig& resolved) {
  // Keys without a section come first: in TOML they would belong to the section before them otherwise.
  std::string top, rest, section;
  for (const Option& option : OptionTable()) {
    const size_t dot = option.key.find('.');
    const std::string value = option.get(resolved.config);
    const auto source = resolved.sources.find(option.key);
    const std::string line = StrCat(" = ", option.is_text ? TomlQuoted(value) : value, "  # ",
                                    source == resolved.sources.end() ? "default" : source->second, "\n");
    if (dot == std::string::npos) {
      top += option.key + line;
      continue;
    }
    // The table is in order of sections, so each header is printed once.
    if (option.key.substr(0, dot) != section) rest += StrCat("\n[", section = option.key.substr(0, dot), "]\n");
    rest += option.key.substr(dot + 1) + line;
  }
  return top + rest;
}

}  // namespace lightcone::server
