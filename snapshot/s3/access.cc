#include "snapshot/s3/access.h"

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/status.h"
#include "snapshot/manifest.h"

namespace lightcone {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kBucketBytesMin = 3, kBucketBytesMax = 63, kPrefixBytesMax = 512, kRegionBytesMax = 64;
constexpr int64_t kCredentialsBytesMax = 64 << 10;

bool IsAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool AllOf(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return IsAlnum(c) || besides.find(c) != std::string_view::npos; });
}

// Parts such as ".." are refused: proxies and servers that keep objects as files take them for folders.
bool IsPlainPrefix(std::string_view prefix) {
  if (prefix.empty()) return true;
  if (prefix.size() > kPrefixBytesMax) return false;
  for (size_t begin = 0; begin <= prefix.size();) {
    const size_t end = std::min(prefix.find('/', begin), prefix.size());
    const std::string_view part = prefix.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || !AllOf(part, "._-")) return false;
    begin = end + 1;
  }
  return true;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// An address for an error: what stands before an @ may be a key.
std::string Quoted(std::string_view address) {
  const bool hidden = address.find('@') != std::string_view::npos;
  return hidden ? "not shown, since it has an @" : StrCat("'", address, "'");
}

// Header values and signatures take neither blanks nor control characters.
bool IsKeyText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::Status CheckCredentials(const S3Credentials& credentials, std::string_view place, std::string_view id_name,
                              std::string_view secret_name) {
  const auto missing = [&](std::string_view name) {
    return FailedPrecondition(StrCat(place, ": ", name, " is missing; allowed: one word of printable ASCII"));
  };
  if (credentials.key_id.empty() || !IsKeyText(credentials.key_id)) return missing(id_name);
  if (credentials.secret.empty() || !IsKeyText(credentials.secret)) return missing(secret_name);
  if (!IsKeyText(credentials.session_token)) return missing("session token");
  return absl::OkStatus();
}

absl::StatusOr<S3Credentials> ParseCredentials(std::string_view text, const std::string& place) {
  S3Credentials out;
  int sections = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      if (++sections > 1) return FailedPrecondition(StrCat(place, " has several sections; allowed: one"));
      continue;
    }
    const size_t equals = std::min(line.find('='), line.size());
    std::string_view name = Trimmed(line.substr(0, equals));
    if (name.starts_with("aws_")) name.remove_prefix(4);
    std::string* const to = name == "access_key_id"       ? &out.key_id
                            : name == "secret_access_key" ? &out.secret
                            : name == "session_token"     ? &out.session_token
                                                          : nullptr;
    if (to == nullptr) continue;  // the region of a profile, for example
    if (!to->empty()) return FailedPrecondition(StrCat(place, " names ", name, " twice; allowed: once"));
    if (equals < line.size()) *to = std::string(Trimmed(line.substr(equals + 1)));
  }
  LC_RETURN_IF_ERROR(CheckCredentials(out, place, "access_key_id", "secret_access_key"));
  return out;
}

}  // namespace

std::string S3Location::Text() const { return StrCat(kScheme, bucket, prefix.empty() ? "" : "/", prefix); }

bool IsS3Url(std::string_view text) { return text.starts_with(kScheme); }

absl::StatusOr<S3Location> ParseS3Url(std::string_view text) {
  const auto refuse = [text] {
    return InvalidField("S3 address", Quoted(text),
                        "s3://BUCKET or s3://BUCKET/PREFIX, of A-Z a-z 0-9 . _ - and, in the prefix, /");
  };
  if (!IsS3Url(text)) return refuse();
  std::string_view rest = text.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = std::min(rest.find('/'), rest.size());
  S3Location out;
  out.bucket = std::string(rest.substr(0, slash));
  if (slash < rest.size()) out.prefix = std::string(rest.substr(slash + 1));
  const bool bucket = out.bucket.size() >= kBucketBytesMin && out.bucket.size() <= kBucketBytesMax &&
                      IsAlnum(out.bucket[0]) && AllOf(out.bucket, "._-");
  if (!bucket || !IsPlainPrefix(out.prefix) || (slash + 1 == rest.size())) return refuse();
  return out;
}

absl::StatusOr<S3Location> ParseS3SnapshotUrl(std::string_view text, std::string* name) {
  LC_ASSIGN_OR_RETURN(S3Location out, ParseS3Url(text));
  const size_t slash = out.prefix.rfind('/');
  *name = slash == std::string::npos ? out.prefix : out.prefix.substr(slash + 1);
  out.prefix = slash == std::string::npos ? "" : out.prefix.substr(0, slash);
  if (name->empty()) {
    return InvalidField("S3 address", StrCat("'", text, "'"), "s3://BUCKET/PREFIX/NAME, the place of one snapshot");
  }
  LC_RETURN_IF_ERROR(CheckSnapshotName(*name));
  return out;
}

absl::StatusOr<S3Endpoint> CompleteS3Endpoint(S3Endpoint endpoint) {
  // A colon would end the region in libcurl's description of the signature.
  if (endpoint.region.empty() || endpoint.region.size() > kRegionBytesMax || !AllOf(endpoint.region, "-_.")) {
    return InvalidField("--s3-region", StrCat("'", endpoint.region, "'"), "1 .. 64 of A-Z a-z 0-9 - _ .");
  }
  if (endpoint.url.empty()) endpoint.url = StrCat("https://s3.", endpoint.region, ".amazonaws.com");
  std::string_view url = endpoint.url;
  if (url.ends_with('/')) url.remove_suffix(1);
  const std::string_view host = url.substr(std::min(url.find("//") + 2, url.size()));
  const bool scheme = url.starts_with("http://") || url.starts_with("https://");
  if (!scheme || host.empty() || !AllOf(host, ".-_:[]")) {
    return InvalidField("--s3-endpoint", Quoted(endpoint.url),
                        "http://HOST[:PORT] or https://HOST[:PORT], without path, user and query");
  }
  endpoint.url = std::string(url);
  return endpoint;
}

absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file) {
  if (!file.empty()) {
    const std::string place = StrCat("S3 credentials file '", file, "'");
    LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kCredentialsBytesMax));
    return ParseCredentials(text, place);
  }
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  S3Credentials out{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")};
  LC_RETURN_IF_ERROR(CheckCredentials(out, "S3 credentials of the environment, without --s3-credentials",
                                      "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"));
  return out;
}

}  // namespace lightcone
