// The keys that are valid now. Files are read again when they change; a file that is not right leaves the keys as they
// are.
// Threads: every method is safe from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/auth/failures.h"
#include "server/auth/principal.h"
#include "server/auth/quota.h"

namespace lightcone::server::auth {

// What a caller shows of itself.
struct Shown {
  std::string_view key;                   // API key or token; empty: none
  std::vector<std::string> certificates;  // names in its verified client certificate
  std::string_view peer;                  // "ipv4:10.0.0.7:5123"
};

// What a caller has shown, so that it can be looked up later: no key, but a key's hash or a token.
struct Credential {
  std::array<uint8_t, 32> key_hash = {};
  std::string token;  // empty: a key was shown
};
Credential CredentialOf(std::string_view key);

enum class Refusal { kMissing, kUnknown, kExpired, kScope, kCollection };
inline constexpr std::array<std::string_view, 5> kRefusalNames = {"missing", "unknown", "expired", "scope",
                                                                  "collection"};

struct KeyringOptions {
  std::string keys_file = {};                             // server/auth/key_file.h; empty: no keys
  std::string token_secrets_file = {};                    // server/auth/token.h; empty: no tokens
  std::function<void(const std::string& line)> log = {};  // may be empty; called from any thread
  std::function<absl::Time()> clock = absl::Now;
  Quota::Clock steady_clock = SteadyNanos;  // clock of the keys' limits
};

// A key with limits.
struct LimitedKey {
  std::string name;
  QuotaFigures figures;
};

struct KeyringFigures {
  int64_t keys = 0;
  uint64_t reloads_total = 0, failed_reloads_total = 0;
  std::array<uint64_t, kRefusalNames.size()> refused_total = {};  // calls by Refusal
  std::vector<LimitedKey> limited;                                // keys by name
};

class Keyring {
 public:
  // Reads the files. INVALID_ARGUMENT names the file, the line and the field; NOT_FOUND for a file that is not there.
  static absl::StatusOr<std::unique_ptr<Keyring>> Open(const KeyringOptions& options);
  ~Keyring();

  // Who shows this. Its quota is that of its name, and stays the same while the files are read again. UNAUTHENTICATED
  // says whether a key is missing, unknown or expired. RESOURCE_EXHAUSTED when the peer has failed too often: a valid
  // key passes all the same. A failure is counted, and logged without the key.
  absl::StatusOr<PrincipalPtr> Authenticate(const Shown& shown);

  // Who showed the credential, if it is valid still: UNAUTHENTICATED. Nothing is counted.
  absl::StatusOr<PrincipalPtr> LookUp(const Credential& credential) const;

  // PERMISSION_DENIED, counted, unless the principal has these scopes for some collection.
  absl::Status CheckCall(const Principal& principal, Scopes needed, std::string_view method);
  // PERMISSION_DENIED, counted, unless it has them for `collection`. The message names `shown`, the name that the
  // caller gave, and is the same whether there is such a collection or not.
  absl::Status CheckCollection(const Principal& principal, Scopes needed, std::string_view collection,
                               std::string_view shown);

  // Reads the files again if they changed. An error leaves the keys as they are. It is logged and counted once, however
  // often it is met.
  absl::Status Reload();

  std::vector<std::string> Files() const;
  KeyringFigures figures() const;

 private:
  struct KnownKey;
  struct Table;
  explicit Keyring(const KeyringOptions& options);
  std::shared_ptr<const Table> table() const;
  absl::StatusOr<std::shared_ptr<const Table>> Read();
  QuotaPtr QuotaOf(const std::string& name);
  // Puts the table into effect, with the limits of its keys.
  void Use(std::shared_ptr<const Table> table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<PrincipalPtr> Find(const Table& table, const Shown& shown, Refusal* refusal) const;
  absl::StatusOr<PrincipalPtr> CheckTime(const KnownKey& known, std::string_view what, Refusal* refusal) const;
  absl::StatusOr<PrincipalPtr> FindCredential(const Table& table, const Credential& credential, Refusal* refusal) const;
  void Count(Refusal refusal) { refused_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed); }

  const KeyringOptions options_;
  FailureLimit failures_;
  std::array<std::atomic<uint64_t>, kRefusalNames.size()> refused_ = {};
  absl::Mutex reload_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // one reload at a time
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Table> table_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, QuotaPtr> quotas_ ABSL_GUARDED_BY(mutex_);  // quotas by the name of their key
  std::string failure_ ABSL_GUARDED_BY(mutex_);  // why the last reload failed; empty: it did not
  uint64_t reloads_ ABSL_GUARDED_BY(mutex_) = 0, failed_reloads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lightcone::server::auth
