#include "server/engine/collection/endpoint_manifest.h"

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "geometry/metric.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

constexpr char kHostsOption[] = "encoder.endpoint_hosts";
constexpr char kKeysOption[] = "encoder.endpoint_keys";
constexpr size_t kMemberBytesMax = 4'096;  // longest text in the manifest
constexpr int kBatchMax = 2'048;
constexpr int kConcurrencyMax = 64;
constexpr double kTimeoutMax = 600;

constexpr std::string_view kEndpointMembers[] = {
    "url",        "model",       "dimensions", "query_prefix", "document_prefix",
    "batch_size", "concurrency", "timeout_s",  "key_file",     "key_env"};

std::string FieldNamed(std::string_view member) { return StrCat("manifest.endpoint.", member); }

absl::Status ReadText(const nlohmann::json& json, const char* member, std::string* out) {
  const auto found = json.find(member);
  if (found == json.end()) return absl::OkStatus();
  if (!found->is_string()) return InvalidField(FieldNamed(member), found->type_name(), "a text");
  *out = found->get<std::string>();
  if (out->size() <= kMemberBytesMax) return absl::OkStatus();
  return InvalidField(FieldNamed(member), StrCat(out->size(), " bytes long"), StrCat("at most ", kMemberBytesMax));
}

// Absent: `*out` stays.
absl::Status ReadWhole(const nlohmann::json& json, const char* member, int max, int* out) {
  const auto found = json.find(member);
  if (found == json.end()) return absl::OkStatus();
  const std::string allowed = StrCat("a whole number, 1 .. ", max);
  if (!found->is_number()) return InvalidField(FieldNamed(member), found->type_name(), allowed);
  const auto number = found->get<double>();
  if (!(number >= 1 && number <= max) || number != std::floor(number)) {
    return InvalidField(FieldNamed(member), StrCat(number), allowed);
  }
  *out = static_cast<int>(number);
  return absl::OkStatus();
}

using CurlUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// Empty where the URL has no such part.
std::string PartOfUrl(const CurlUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

// nullptr: not an URL of HTTP. One parser reads what is checked and what is called.
CurlUrl ParseUrl(const std::string& text) {
  CurlUrl url(curl_url(), curl_url_cleanup);
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; });
  if (url == nullptr || !plain) return CurlUrl(nullptr, curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) url.reset();
  return url;
}

std::string Lowered(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

absl::Status ReadUrl(const std::string& text, EndpointManifest* out) {
  const auto refuse = [](const std::string& value, const std::string& allowed) {
    return InvalidField(FieldNamed("url"), value, allowed);
  };
  if (text.empty()) return refuse("missing", "http://HOST:PORT/PATH or https://HOST:PORT/PATH");
  const CurlUrl url = ParseUrl(text);
  if (url == nullptr) return refuse("no URL", "http://HOST:PORT/PATH or https://HOST:PORT/PATH");
  out->scheme = PartOfUrl(url, CURLUPART_SCHEME);
  if (out->scheme != "http" && out->scheme != "https") {
    return refuse(StrCat("an URL of scheme '", CleanUtf8(out->scheme), "'"), "http, https");
  }
  if (!PartOfUrl(url, CURLUPART_USER).empty() || !PartOfUrl(url, CURLUPART_PASSWORD).empty()) {
    return refuse("an URL with a user or a password", "none; name a key by key_file or key_env");
  }
  if (!PartOfUrl(url, CURLUPART_FRAGMENT).empty()) return refuse("an URL with a fragment", "none");
  out->host = Lowered(PartOfUrl(url, CURLUPART_HOST));
  out->port = PartOfUrl(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (out->host.empty() || out->port.empty()) return refuse("an URL without a host", "one with a host");
  out->url = PartOfUrl(url, CURLUPART_URL);
  return absl::OkStatus();
}

absl::Status CheckKeyNames(const EndpointManifest& endpoint) {
  if (!endpoint.key_file.empty() && !endpoint.key_env.empty()) {
    return InvalidField(FieldNamed("key_env"), "given beside key_file", "one of the two");
  }
  const auto consists_of = [](const std::string& text, auto is_one) {
    return text.size() <= 255 && std::all_of(text.begin(), text.end(), is_one);
  };
  const bool is_file_name = consists_of(endpoint.key_file, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (!is_file_name || endpoint.key_file.starts_with('.')) {
    return InvalidField(FieldNamed("key_file"), StrCat("'", CleanUtf8(endpoint.key_file), "'"),
                        StrCat("the name of a file in ", kKeysOption, ", of [A-Za-z0-9._-], not '.' first"));
  }
  const bool is_variable = consists_of(
      endpoint.key_env, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
  if (endpoint.key_env.empty() || (is_variable && endpoint.key_env.starts_with(kEndpointKeyPrefix))) {
    return absl::OkStatus();
  }
  return InvalidField(FieldNamed("key_env"), StrCat("'", CleanUtf8(endpoint.key_env), "'"),
                      StrCat("a variable of [A-Z0-9_] whose name begins with ", kEndpointKeyPrefix));
}

}  // namespace

std::string EndpointManifest::Name() const { return StrCat(scheme, "://", host, ":", port); }

absl::StatusOr<EndpointManifest> ReadEndpoint(const nlohmann::json& json) {
  if (!json.is_object()) return InvalidField("manifest.endpoint", json.type_name(), "an object");
  for (const auto& [member, value] : json.items()) {
    if (std::find(std::begin(kEndpointMembers), std::end(kEndpointMembers), member) != std::end(kEndpointMembers)) {
      continue;
    }
    std::string allowed;
    for (const std::string_view one : kEndpointMembers) allowed += StrCat(allowed.empty() ? "" : ", ", one);
    return InvalidField("manifest.endpoint", StrCat("with a member '", CleanUtf8(member), "'"), allowed);
  }
  EndpointManifest out;
  std::string url;
  LC_RETURN_IF_ERROR(ReadText(json, "url", &url));
  LC_RETURN_IF_ERROR(ReadUrl(url, &out));
  LC_RETURN_IF_ERROR(ReadText(json, "model", &out.model));
  if (out.model.empty()) return InvalidField(FieldNamed("model"), "missing", "the model's name at the endpoint");
  LC_RETURN_IF_ERROR(ReadText(json, "query_prefix", &out.query_prefix));
  LC_RETURN_IF_ERROR(ReadText(json, "document_prefix", &out.document_prefix));
  LC_RETURN_IF_ERROR(ReadText(json, "key_file", &out.key_file));
  LC_RETURN_IF_ERROR(ReadText(json, "key_env", &out.key_env));
  LC_RETURN_IF_ERROR(CheckKeyNames(out));
  int dimensions = 0;
  LC_RETURN_IF_ERROR(ReadWhole(json, "dimensions", kDimensionMax, &dimensions));
  if (dimensions > 0) out.dimensions = dimensions;
  LC_RETURN_IF_ERROR(ReadWhole(json, "batch_size", kBatchMax, &out.batch_size));
  LC_RETURN_IF_ERROR(ReadWhole(json, "concurrency", kConcurrencyMax, &out.concurrency));
  if (const auto timeout = json.find("timeout_s"); timeout != json.end()) {
    const double seconds = timeout->is_number() ? timeout->get<double>() : 0;
    if (!(seconds >= 0.01 && seconds <= kTimeoutMax)) {
      return InvalidField(FieldNamed("timeout_s"), timeout->is_number() ? StrCat(seconds) : timeout->type_name(),
                          StrCat("a number of seconds, 0.01 .. ", kTimeoutMax));
    }
    out.timeout = absl::Seconds(seconds);
  }
  return out;
}

absl::Status CheckEndpointAllowed(const EndpointManifest& endpoint, const EndpointOptions& options) {
  const std::string address = endpoint.host + ":" + endpoint.port;
  const bool own_port = endpoint.port == (endpoint.scheme == "https" ? "443" : "80");
  const bool listed = std::any_of(options.hosts.begin(), options.hosts.end(), [&](const std::string& entry) {
    const std::string host = Lowered(entry);
    return host == address || (own_port && host == endpoint.host);
  });
  if (!listed) {
    std::string hosts;
    for (const std::string& host : options.hosts) hosts += StrCat(hosts.empty() ? "" : ", ", host);
    return FieldError(absl::StatusCode::kFailedPrecondition, FieldNamed("url"), StrCat("of host ", address),
                      StrCat(hosts.empty() ? "no host" : hosts, " (", kHostsOption, ")"));
  }
  if (!endpoint.key_file.empty() && options.keys_folder.empty()) {
    return FieldError(absl::StatusCode::kFailedPrecondition, FieldNamed("key_file"), endpoint.key_file,
                      StrCat("none: the option ", kKeysOption, " names no folder"));
  }
  return absl::OkStatus();
}

absl::Status CheckEndpointHost(const std::string& entry, const std::string& option) {
  const CurlUrl url = ParseUrl("http://" + entry);
  const bool bare = url != nullptr && PartOfUrl(url, CURLUPART_USER).empty() &&
                    PartOfUrl(url, CURLUPART_PASSWORD).empty() && PartOfUrl(url, CURLUPART_QUERY).empty() &&
                    PartOfUrl(url, CURLUPART_FRAGMENT).empty() && PartOfUrl(url, CURLUPART_PATH) == "/";
  const std::string port = bare ? PartOfUrl(url, CURLUPART_PORT) : "";
  if (bare && Lowered(entry) == Lowered(PartOfUrl(url, CURLUPART_HOST)) + (port.empty() ? "" : ":" + port)) {
    return absl::OkStatus();
  }
  return InvalidField(option, StrCat("'", CleanUtf8(entry), "'"), "hosts, or HOST:PORT, with ',' between them");
}

}  // namespace lightcone::server
