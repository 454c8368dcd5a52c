// Any text as a token, and as header and claims of one that is signed: the first is never accepted, and the second only
// with claims that grant something within their bounds. The same text as a file of secrets.
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "server/auth/token.h"

namespace {

constexpr char kSecret[] = "a secret of the fuzzer of thirty-two bytes";

std::string Base64(std::string_view text) {
  return absl::WebSafeBase64Escape(absl::string_view(text.data(), text.size()));
}

std::string Signed(std::string_view header, std::string_view claims) {
  const std::string content = Base64(header) + "." + Base64(claims);
  unsigned char made[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  HMAC(EVP_sha256(), kSecret, sizeof(kSecret) - 1, reinterpret_cast<const unsigned char*>(content.data()),
       content.size(), made, &bytes);
  return content + "." + Base64(std::string_view(reinterpret_cast<const char*>(made), bytes));
}

void CheckClaims(const lightcone::server::auth::TokenClaims& claims) {
  using namespace lightcone::server::auth;  // NOLINT: a function of one namespace
  const std::string& name = claims.principal.name;
  if (name != "token" && (!name.starts_with("token:") || name.size() > 70)) std::abort();
  if (std::any_of(name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; })) std::abort();
  if (claims.expires < absl::UnixEpoch() || claims.principal.grants.empty()) std::abort();
  for (const Grant& grant : claims.principal.grants) {
    if (grant.scopes == kNoScope || grant.collections.size() != 1) std::abort();
    const bool everything = grant.collections[0] == "*" && claims.principal.grants.size() == 1;
    if (!everything && grant.collections[0].find('*') != std::string::npos) std::abort();
    if (!everything && grant.scopes.Include(kAdmin)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone::server::auth;  // NOLINT: a file of one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> secrets = {std::string(kSecret)};
  (void)LooksLikeToken(text);
  if (VerifyToken(text, secrets).ok()) std::abort();
  const size_t line = text.find('\n');
  const bool parts = line != std::string_view::npos;
  const std::string_view header = parts ? text.substr(0, line) : R"({"alg":"HS256"})";
  const std::string token = Signed(header, parts ? text.substr(line + 1) : text);
  const auto claims = VerifyToken(token, secrets);
  if (claims.ok()) CheckClaims(*claims);
  if (!claims.ok() && claims.status().code() != absl::StatusCode::kUnauthenticated) std::abort();
  if (VerifyToken(token, {std::string(32, 'x')}).ok()) std::abort();
  const auto read = ParseSecrets(text);
  if (!read.ok()) return 0;
  if (read->empty() || read->size() > 2) std::abort();
  for (const std::string& secret : *read) {
    if (secret.size() < 32 || secret.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
