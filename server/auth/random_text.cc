#include "server/auth/random_text.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "absl/strings/escaping.h"
#include "base/status.h"

namespace lightcone::server::auth {

absl::StatusOr<std::string> RandomText() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return Internal("the system gave no random bits for a key");
  std::string text = absl::WebSafeBase64Escape(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
  while (!text.empty() && text.back() == '=') text.pop_back();
  return text;
}

bool AreEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lightcone::server::auth
