#include "server/auth/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "base/strings.h"

namespace lightcone::server::auth {
namespace {

using Claim = nlohmann::json;

constexpr size_t kTokenBytesMax = 8'192;
constexpr size_t kSecretBytesMin = 32;
constexpr size_t kGrantsMax = 1'000;

absl::Status Refuse(std::string_view why) {
  return MakeStatus(absl::StatusCode::kUnauthenticated, StrCat("the token is not accepted: ", why));
}

// A null value when the part is no base64url of JSON.
Claim PartOf(std::string_view part) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(ToAbsl(part), &text) || JsonNestsDeeper(text, 8)) return Claim();
  return Claim::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Whether the text may stand in a line of a log.
bool IsName(std::string_view text) {
  return text.size() <= 64 && std::none_of(text.begin(), text.end(),
                                           [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

bool IsSigned(std::string_view content, std::string_view signature, const std::vector<std::string>& secrets) {
  std::string given;
  if (!absl::WebSafeBase64Unescape(ToAbsl(signature), &given) || given.size() != 32) return false;
  bool good = false;
  for (const std::string& secret : secrets) {
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(content.data()), content.size(), made, &bytes);
    good |= bytes == given.size() && CRYPTO_memcmp(made, given.data(), bytes) == 0;
  }
  return good;
}

// What access to one collection grants; none: the text is not known.
Scopes ScopesOf(const Claim& access) {
  if (access == "r") return kRead;
  if (access == "prw") return kRead | kWrite;
  return access == "rw" ? kRead | kWrite | kIndex : kNoScope;
}

absl::Status AddGrants(const Claim& access, std::vector<Grant>* grants) {
  if (access == "r") {
    grants->push_back({kRead, {"*"}});
    return absl::OkStatus();
  }
  if (access == "m") {
    grants->push_back({kAdmin, {"*"}});
    return absl::OkStatus();
  }
  if (!access.is_array() || access.empty() || access.size() > kGrantsMax) {
    return Refuse("its claim 'access' is not \"r\", \"m\" or a list of 1 .. 1000 collections");
  }
  for (const Claim& one : access) {
    if (!one.is_object() || !one.contains("collection") || !one["collection"].is_string() || one.size() != 2 ||
        !one.contains("access") || ScopesOf(one["access"]) == kNoScope) {
      return Refuse(
          "an element of its claim 'access' is not {\"collection\": NAME, \"access\": \"r\", \"prw\" or \"rw\"}");
    }
    const std::string name = one["collection"].get<std::string>();
    // The name of one collection, as in Qdrant: no pattern.
    if (!CheckPattern(name, "collection").ok() || name.find('*') != std::string::npos) {
      return Refuse("a collection of its claim 'access' is no name");
    }
    grants->push_back({ScopesOf(one["access"]), {name}});
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeToken(std::string_view key) {
  return key.starts_with("ey") && std::count(key.begin(), key.end(), '.') == 2;
}

absl::StatusOr<TokenClaims> VerifyToken(std::string_view token, const std::vector<std::string>& secrets) {
  if (token.size() > kTokenBytesMax) return Refuse("it is longer than 8192 bytes");
  const size_t first = token.find('.'), last = token.rfind('.');
  if (first == std::string_view::npos || first == last) return Refuse("it has not three parts");
  if (!IsSigned(token.substr(0, last), token.substr(last + 1), secrets)) return Refuse("its signature is not right");
  const Claim header = PartOf(token.substr(0, first));
  if (!header.is_object() || !header.contains("alg") || header["alg"] != "HS256") return Refuse("alg is not HS256");
  // It names parts of the header that whoever takes the token must know. None is known here.
  if (header.contains("crit")) return Refuse("its header has 'crit'");
  const Claim claims = PartOf(token.substr(first + 1, last - first - 1));
  if (!claims.is_object() || !claims.contains("access")) return Refuse("it has no claim 'access'");
  for (const char* narrower : {"value_exists", "payload", "nbf", "aud"}) {
    if (claims.contains(narrower)) return Refuse(StrCat("its claim '", narrower, "' is not supported"));
  }
  TokenClaims out;
  out.principal.name = "token";
  if (claims.contains("sub")) {
    const Claim& sub = claims["sub"];
    if (!sub.is_string() || !IsName(sub.get<std::string>())) {
      return Refuse("its claim 'sub' is no line of text of at most 64 bytes");
    }
    out.principal.name = StrCat("token:", sub.get<std::string>());
  }
  if (claims.contains("exp")) {
    const Claim& exp = claims["exp"];
    if (!exp.is_number() || !(exp.get<double>() >= 0 && exp.get<double>() < 1e11)) {
      return Refuse("its claim 'exp' is no time in seconds");
    }
    out.expires = absl::UnixEpoch() + absl::Seconds(exp.get<double>());
  }
  LC_RETURN_IF_ERROR(AddGrants(claims["access"], &out.principal.grants));
  return out;
}

absl::StatusOr<std::vector<std::string>> ParseSecrets(std::string_view text) {
  std::vector<std::string> secrets;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (line.size() < kSecretBytesMin) {
      return Annotate(InvalidField("secret", StrCat(line.size(), " bytes"), "at least 32 bytes"),
                      StrCat("line ", number));
    }
    secrets.push_back(std::move(line));
  }
  if (secrets.empty() || secrets.size() > 2) {
    return InvalidField("secrets", StrCat(secrets.size(), " lines"), "one line, or two while a secret is replaced");
  }
  return secrets;
}

}  // namespace lightcone::server::auth
