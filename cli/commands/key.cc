// lightcone key create: a key for callers, and the line of the server's file of keys. No server takes part.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "cli/commands.h"
#include "nlohmann/json.hpp"
#include "server/auth/key_file.h"
#include "server/auth/quota.h"

namespace lightcone::cli {
namespace {

struct KeyFlags {
  std::string name, expires, certificate;
  std::vector<std::string> scopes, collections = {"*"};
  std::array<std::optional<int64_t>, server::auth::kLimitRows.size()> limits;
};

// "90d" from now, or a time as RFC 3339 has it.
absl::StatusOr<absl::Time> ParseExpiry(const std::string& text) {
  absl::Time at;
  if (absl::ParseTime(absl::RFC3339_full, text, &at, nullptr)) return at;
  int days = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, days);
  if (error == std::errc() && stop + 1 == end && *stop == 'd' && days >= 1 && days <= 36'500) {
    return absl::Now() + days * absl::Hours(24);
  }
  return InvalidField("--expires", StrCat("'", text, "'"), "1d .. 36500d, or a time as 2030-01-31T00:00:00Z");
}

// "--calls-per-second"
std::string FlagOf(const server::auth::LimitRow& row) {
  std::string flag = StrCat("--", row.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

absl::StatusOr<server::auth::CallLimits> LimitsOf(const KeyFlags& flags) {
  server::auth::CallLimits limits;
  for (size_t i = 0; i < flags.limits.size(); ++i) {
    if (!flags.limits[i].has_value()) continue;
    const server::auth::LimitRow& row = server::auth::kLimitRows[i];
    LC_RETURN_IF_ERROR(server::auth::CheckLimit(row, *flags.limits[i], FlagOf(row)));
    limits.*row.value = *flags.limits[i];
  }
  return limits;
}

absl::Status CreateKey(Context& context, const KeyFlags& flags) {
  server::auth::KeyEntry entry;
  entry.name = flags.name;
  entry.certificate = flags.certificate;
  entry.grant.collections = flags.collections;
  for (const std::string& name : flags.scopes) {
    LC_ASSIGN_OR_RETURN(const server::auth::Scopes scope, server::auth::ParseScope(name, "--scope"));
    entry.grant.scopes = entry.grant.scopes | scope;
  }
  if (!flags.expires.empty()) {
    LC_ASSIGN_OR_RETURN(entry.expires, ParseExpiry(flags.expires));
  }
  LC_ASSIGN_OR_RETURN(entry.limits, LimitsOf(flags));
  LC_RETURN_IF_ERROR(server::auth::CheckKey(entry));
  std::string key;
  if (flags.certificate.empty()) {
    LC_ASSIGN_OR_RETURN(key, server::auth::MakeKey());
    entry.hash = server::auth::HashOf(key);
  }
  const std::string line = server::auth::LineOf(entry);
  nlohmann::ordered_json json;
  if (!key.empty()) json["key"] = key;
  json["line"] = nlohmann::ordered_json::parse(line);
  const std::string shown = key.empty() ? "" : StrCat("Key, shown only now: give it to the caller.\n", key, "\n\n");
  context.Show(json, StrCat(shown, "Line for the server's auth.keys_file:\n", line, "\n"));
  return absl::OkStatus();
}

}  // namespace

void AddKey(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "key", "Make keys for callers of a server");
  app->require_subcommand(1);
  CLI::App* create = AddCommand(*app, "create", "Print a new key, once, and its line for the server's file of keys");
  auto flags = std::make_shared<KeyFlags>();
  create->add_option("name", flags->name, "Name of the key, for logs: 1 .. 64 letters, digits, '-', '_', '.' and '@'")
      ->required();
  create->add_option("--scope", flags->scopes, "What the key allows: read, write, operate, admin; may be repeated")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  create
      ->add_option("--collection", flags->collections,
                   "Collections that the key is for; '*' stands for any text; may be repeated. Default: every one")
      ->delimiter(',')
      ->allow_extra_args(false);
  create->add_option("--expires", flags->expires, "When the key ends: 90d, or 2030-01-31T00:00:00Z. Default: never");
  create->add_option("--certificate", flags->certificate,
                     "Name in a client certificate that the line is for, instead of a key");
  constexpr std::array<const char*, server::auth::kLimitRows.size()> kLimitHelp = {
      "Calls that the key may begin each second", "Calls of the key that may run at once",
      "Items that the key may write and read each second", "Bytes of these items each second"};
  for (size_t i = 0; i < kLimitHelp.size(); ++i) {
    const server::auth::LimitRow& row = server::auth::kLimitRows[i];
    create->add_option(FlagOf(row), flags->limits[i],
                       StrCat(kLimitHelp[i], ": ", row.min, " .. ", row.max, ". Default: no limit"));
  }
  create->callback([&context, flags] { context.Finish(CreateKey(context, *flags)); });
}

}  // namespace lightcone::cli
