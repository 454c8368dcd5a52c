// JSON web tokens that a test signs. Threads: pure functions.
#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

#include "absl/strings/escaping.h"

namespace lightcone {

inline constexpr char kTokenHeader[] = R"({"alg":"HS256","typ":"JWT"})";

// base64url without padding, as the parts of a token are written
inline std::string EncodedPart(const std::string& text) {
  std::string out = absl::WebSafeBase64Escape(text);
  while (!out.empty() && out.back() == '=') out.pop_back();
  return out;
}

// A token with the claims, which are JSON, signed with HMAC-SHA-256 whatever the header says.
inline std::string SignedToken(const std::string& claims, const std::string& secret,
                               const std::string& header = kTokenHeader) {
  const std::string content = EncodedPart(header) + "." + EncodedPart(claims);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(content.data()), content.size(), mac, &bytes);
  return content + "." + EncodedPart(std::string(reinterpret_cast<char*>(mac), bytes));
}

}  // namespace lightcone
