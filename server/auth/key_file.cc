#include "server/auth/key_file.h"

#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "server/auth/random_text.h"

namespace lightcone::server::auth {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNameBytesMax = 64;
constexpr size_t kPatternsMax = 100;
constexpr size_t kKeysOfANameMax = 2;

absl::StatusOr<std::string> TextAt(const Json& line, const char* field) {
  const auto at = line.find(field);
  if (at == line.end()) return std::string();
  if (!at->is_string()) return InvalidField(field, StrCat("'", at->dump(), "'"), "a text");
  return at->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> TextsAt(const Json& line, const char* field) {
  std::vector<std::string> texts;
  const auto at = line.find(field);
  if (at == line.end()) return texts;
  if (!at->is_array()) return InvalidField(field, StrCat("'", at->dump(), "'"), "a list of texts");
  for (const Json& one : *at) {
    if (!one.is_string()) return InvalidField(field, StrCat("'", one.dump(), "'"), "a list of texts");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

absl::StatusOr<KeyHash> ParseHash(const std::string& text) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != 2 * sizeof(KeyHash) || !digits) {
    return InvalidField("sha256", StrCat(text.size(), " characters"), "64 hexadecimal digits in lower case");
  }
  const std::string bytes = absl::HexStringToBytes(text);
  KeyHash hash;
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

absl::Status CheckFields(const Json& line) {
  std::vector<std::string> known = {"name", "sha256", "certificate", "scopes", "collections", "expires"};
  for (const LimitRow& row : kLimitRows) known.emplace_back(row.name);
  for (const auto& [field, value] : line.items()) {
    if (std::find(known.begin(), known.end(), field) != known.end()) continue;
    return InvalidField("field", StrCat("'", field, "'"), absl::StrJoin(known, ", "));
  }
  return absl::OkStatus();
}

absl::StatusOr<CallLimits> LimitsAt(const Json& line) {
  CallLimits limits;
  for (const LimitRow& row : kLimitRows) {
    const auto at = line.find(std::string(row.name));
    if (at == line.end()) continue;
    // What is larger than a signed number holds would become negative.
    if (!at->is_number_integer() || (at->is_number_unsigned() && at->get<uint64_t>() > INT64_MAX)) {
      return InvalidField(row.name, StrCat("'", at->dump().substr(0, 40), "'"),
                          StrCat(row.min, " .. ", row.max, " ", row.unit));
    }
    LC_RETURN_IF_ERROR(CheckLimit(row, at->get<int64_t>(), row.name));
    limits.*row.value = at->get<int64_t>();
  }
  return limits;
}

absl::StatusOr<KeyEntry> ParseLine(const std::string& text) {
  const Json line = JsonNestsDeeper(text, 4) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  // The line is not shown: it may hold a key by mistake.
  if (!line.is_object()) return InvalidField("line", "no JSON object", "a JSON object");
  LC_RETURN_IF_ERROR(CheckFields(line));
  KeyEntry entry;
  LC_ASSIGN_OR_RETURN(entry.name, TextAt(line, "name"));
  LC_ASSIGN_OR_RETURN(entry.certificate, TextAt(line, "certificate"));
  LC_ASSIGN_OR_RETURN(const std::string hash, TextAt(line, "sha256"));
  if (entry.certificate.empty() == hash.empty()) {
    return InvalidField("sha256", hash.empty() ? "not set" : "set beside certificate", "one of sha256 and certificate");
  }
  if (!hash.empty()) {
    LC_ASSIGN_OR_RETURN(entry.hash, ParseHash(hash));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<std::string> scopes, TextsAt(line, "scopes"));
  for (const std::string& scope : scopes) {
    LC_ASSIGN_OR_RETURN(const Scopes one, ParseScope(scope, "scopes"));
    entry.grant.scopes = entry.grant.scopes | one;
  }
  LC_ASSIGN_OR_RETURN(entry.grant.collections, TextsAt(line, "collections"));
  if (!line.contains("collections")) entry.grant.collections = {"*"};
  LC_ASSIGN_OR_RETURN(const std::string expires, TextAt(line, "expires"));
  if (!expires.empty() && !absl::ParseTime(absl::RFC3339_full, expires, &entry.expires, nullptr)) {
    return InvalidField("expires", StrCat("'", expires, "'"), "a time as 2030-01-31T00:00:00Z");
  }
  LC_ASSIGN_OR_RETURN(entry.limits, LimitsAt(line));
  LC_RETURN_IF_ERROR(CheckKey(entry));
  return entry;
}

}  // namespace

absl::Status CheckKey(const KeyEntry& entry) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '@';
  };
  if (entry.name.empty() || entry.name.size() > kNameBytesMax ||
      !std::all_of(entry.name.begin(), entry.name.end(), allowed)) {
    return InvalidField("name", StrCat("'", entry.name, "'"), "1 .. 64 letters, digits, '-', '_', '.' and '@'");
  }
  if (entry.certificate.size() > 512) {
    return InvalidField("certificate", StrCat(entry.certificate.size(), " bytes"), "at most 512 bytes");
  }
  if (entry.grant.scopes == kNoScope) {
    return InvalidField("scopes", "none", "at least one of read, write, operate, admin");
  }
  if (entry.grant.collections.empty() || entry.grant.collections.size() > kPatternsMax) {
    return InvalidField("collections", StrCat(entry.grant.collections.size(), " patterns"),
                        StrCat("1 .. ", kPatternsMax, " patterns"));
  }
  for (const std::string& pattern : entry.grant.collections) {
    LC_RETURN_IF_ERROR(CheckPattern(pattern, "collections"));
  }
  for (const LimitRow& row : kLimitRows) {
    if (const int64_t value = entry.limits.*row.value; value != 0) {
      LC_RETURN_IF_ERROR(CheckLimit(row, value, row.name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<KeyEntry>> ParseKeys(std::string_view text) {
  std::vector<KeyEntry> entries;
  std::map<std::string, std::vector<CallLimits>> names;  // limits of each line of a name
  std::set<std::string> certificates;
  std::set<KeyHash> hashes;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos || line.front() == '#') continue;
    absl::StatusOr<KeyEntry> entry = ParseLine(line);
    if (!entry.ok()) return Annotate(entry.status(), StrCat("line ", number));
    const bool twice = entry->certificate.empty() ? !hashes.insert(entry->hash).second
                                                  : !certificates.insert(entry->certificate).second;
    if (twice) return InvalidArgument(StrCat("line ", number, ": its key or certificate stands in a line before"));
    std::vector<CallLimits>& limits = names[entry->name];
    limits.push_back(entry->limits);
    if (limits.size() > kKeysOfANameMax) {
      return Annotate(InvalidField("name", StrCat("'", entry->name, "', for the third time"),
                                   "at most two lines of a name, while a key is replaced"),
                      StrCat("line ", number));
    }
    if (limits.back() != limits.front()) {
      return InvalidArgument(StrCat("line ", number, ": the limits of '", entry->name,
                                    "' differ from those in its other line; allowed: the same in both"));
    }
    entries.push_back(*std::move(entry));
    if (entries.size() > kKeysMax) {
      return InvalidField("keys", StrCat("more than ", kKeysMax), StrCat("at most ", kKeysMax));
    }
  }
  return entries;
}

std::string LineOf(const KeyEntry& entry) {
  Json line;
  line["name"] = entry.name;
  if (entry.certificate.empty()) {
    line["sha256"] =
        absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(entry.hash.data()), entry.hash.size()));
  } else {
    line["certificate"] = entry.certificate;
  }
  line["scopes"] = NamesOf(entry.grant.scopes);
  line["collections"] = entry.grant.collections;
  if (entry.expires != absl::InfiniteFuture()) {
    line["expires"] = absl::FormatTime(absl::RFC3339_sec, entry.expires, absl::UTCTimeZone());
  }
  for (const LimitRow& row : kLimitRows) {
    if (const int64_t value = entry.limits.*row.value; value != 0) line[std::string(row.name)] = value;
  }
  return line.dump();
}

absl::StatusOr<std::string> MakeKey() {
  LC_ASSIGN_OR_RETURN(const std::string text, RandomText());
  return "lck_" + text;
}

KeyHash HashOf(std::string_view key) {
  KeyHash hash;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

}  // namespace lightcone::server::auth
