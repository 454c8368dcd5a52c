#include "server/auth/keyring.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/status.h"
#include "server/auth/key_file.h"
#include "server/auth/token.h"

namespace lightcone::server::auth {
namespace {

constexpr int64_t kFileBytesMax = 16 << 20;

absl::Status Unauthenticated(std::string_view message) {
  return MakeStatus(absl::StatusCode::kUnauthenticated, message);
}

uint64_t PrefixOf(const KeyHash& hash) {
  uint64_t prefix;
  std::memcpy(&prefix, hash.data(), sizeof(prefix));
  return prefix;
}

std::string TextOfTime(absl::Time time) { return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone()); }

std::string PatternsOf(const Principal& principal, Scopes needed) {
  std::string text;
  for (const Grant& grant : principal.grants) {
    if (!grant.scopes.Include(needed)) continue;
    for (const std::string& pattern : grant.collections) text += (text.empty() ? "" : ", ") + pattern;
  }
  return text;
}

}  // namespace

struct Keyring::KnownKey {
  KeyHash hash;
  absl::Time expires;
  PrincipalPtr principal;
};

struct Keyring::Table {
  std::string text;  // content of the files, to tell whether they changed
  // By the first bytes of the hash. How long a look-up takes tells a caller nothing of use: it cannot choose a key by
  // its hash.
  absl::flat_hash_map<uint64_t, std::vector<KnownKey>> keys;
  absl::flat_hash_map<std::string, KnownKey> certificates;
  std::vector<std::string> secrets;
  absl::flat_hash_map<std::string, CallLimits> limits;  // limits by the name of their key
  int64_t entries = 0;
};

Keyring::Keyring(const KeyringOptions& options) : options_(options) {}
Keyring::~Keyring() = default;

absl::StatusOr<std::unique_ptr<Keyring>> Keyring::Open(const KeyringOptions& options) {
  std::unique_ptr<Keyring> self(new Keyring(options));
  LC_ASSIGN_OR_RETURN(std::shared_ptr<const Table> table, self->Read());
  absl::MutexLock lock(&self->mutex_);
  self->Use(std::move(table));
  return self;
}

QuotaPtr Keyring::QuotaOf(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  QuotaPtr& quota = quotas_[name];
  if (quota == nullptr) quota = std::make_shared<Quota>(StrCat("key '", name, "'"), options_.steady_clock);
  return quota;
}

void Keyring::Use(std::shared_ptr<const Table> table) {
  table_ = std::move(table);
  for (const auto& [name, quota] : quotas_) {
    const auto limits = table_->limits.find(name);
    quota->SetLimits(limits == table_->limits.end() ? CallLimits() : limits->second);
  }
  absl::erase_if(quotas_, [&](const auto& one) { return !table_->limits.contains(one.first); });
}

absl::StatusOr<std::shared_ptr<const Keyring::Table>> Keyring::Read() {
  auto table = std::make_shared<Table>();
  if (!options_.keys_file.empty()) {
    LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.keys_file, kFileBytesMax));
    table->text = text;
    absl::StatusOr<std::vector<KeyEntry>> entries = ParseKeys(text);
    if (!entries.ok()) return Annotate(entries.status(), options_.keys_file);
    table->entries = static_cast<int64_t>(entries->size());
    for (KeyEntry& entry : *entries) {
      KnownKey known = {entry.hash, entry.expires, nullptr};
      // Also without limits: the next file may give it some, which hold for streams that have begun.
      table->limits[entry.name] = entry.limits;
      QuotaPtr quota = QuotaOf(entry.name);
      known.principal = std::make_shared<const Principal>(
          Principal{.name = entry.name, .grants = {std::move(entry.grant)}, .quota = std::move(quota)});
      if (entry.certificate.empty()) {
        table->keys[PrefixOf(known.hash)].push_back(std::move(known));
      } else {
        table->certificates.emplace(entry.certificate, std::move(known));
      }
    }
  }
  if (!options_.token_secrets_file.empty()) {
    LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.token_secrets_file, kFileBytesMax));
    table->text += StrCat("\n", text);
    absl::StatusOr<std::vector<std::string>> secrets = ParseSecrets(text);
    if (!secrets.ok()) return Annotate(secrets.status(), options_.token_secrets_file);
    table->secrets = *std::move(secrets);
  }
  return std::shared_ptr<const Table>(std::move(table));
}

absl::Status Keyring::Reload() {
  absl::MutexLock reload_lock(&reload_mutex_);
  absl::StatusOr<std::shared_ptr<const Table>> next = Read();
  std::string line;
  {
    absl::MutexLock lock(&mutex_);
    const std::string failure = next.ok() ? "" : MessageOf(next.status());
    if (failure != failure_ && !failure.empty()) {
      ++failed_reloads_;
      line = StrCat("keys are not read again, and stay as they were: ", failure);
    }
    failure_ = failure;
    if (next.ok() && (*next)->text != table_->text) {
      ++reloads_;
      Use(*next);
      line = StrCat("keys were read again: ", table_->entries, " lines");
    }
  }
  if (!line.empty() && options_.log) options_.log(line);
  return next.status();
}

std::shared_ptr<const Keyring::Table> Keyring::table() const {
  absl::ReaderMutexLock lock(&mutex_);
  return table_;
}

Credential CredentialOf(std::string_view key) {
  Credential credential;
  if (LooksLikeToken(key)) {
    credential.token = std::string(key);
  } else {
    credential.key_hash = HashOf(key);
  }
  return credential;
}

absl::StatusOr<PrincipalPtr> Keyring::CheckTime(const KnownKey& known, std::string_view what, Refusal* refusal) const {
  if (options_.clock() < known.expires) return known.principal;
  *refusal = Refusal::kExpired;
  return Unauthenticated(StrCat(what, " '", known.principal->name, "' expired at ", TextOfTime(known.expires)));
}

absl::StatusOr<PrincipalPtr> Keyring::FindCredential(const Table& table, const Credential& credential,
                                                     Refusal* refusal) const {
  *refusal = Refusal::kUnknown;
  if (!credential.token.empty()) {
    if (table.secrets.empty()) return Unauthenticated("the server takes no tokens: auth.token_secrets_file is not set");
    LC_ASSIGN_OR_RETURN(TokenClaims claims, VerifyToken(credential.token, table.secrets));
    const KnownKey known = {{}, claims.expires, std::make_shared<const Principal>(std::move(claims.principal))};
    return CheckTime(known, "the token", refusal);
  }
  const KeyHash& hash = credential.key_hash;
  if (const auto at = table.keys.find(PrefixOf(hash)); at != table.keys.end()) {
    for (const KnownKey& known : at->second) {
      if (CRYPTO_memcmp(known.hash.data(), hash.data(), hash.size()) == 0) return CheckTime(known, "key", refusal);
    }
  }
  return Unauthenticated("the key of the call is not known to the server");
}

absl::StatusOr<PrincipalPtr> Keyring::Find(const Table& table, const Shown& shown, Refusal* refusal) const {
  if (!shown.key.empty()) return FindCredential(table, CredentialOf(shown.key), refusal);
  *refusal = Refusal::kMissing;
  for (const std::string& name : shown.certificates) {
    if (const auto at = table.certificates.find(name); at != table.certificates.end()) {
      return CheckTime(at->second, "the entry of certificate", refusal);
    }
  }
  return Unauthenticated(shown.certificates.empty()
                             ? "the call has no key: send one as 'authorization: Bearer KEY' or 'api-key: KEY'"
                             : "the call has no key, and its client certificate is not in the file of keys");
}

absl::StatusOr<PrincipalPtr> Keyring::LookUp(const Credential& credential) const {
  Refusal ignored;
  return FindCredential(*table(), credential, &ignored);
}

absl::StatusOr<PrincipalPtr> Keyring::Authenticate(const Shown& shown) {
  Refusal refusal;
  absl::StatusOr<PrincipalPtr> found = Find(*table(), shown, &refusal);
  if (found.ok()) return found;
  Count(refusal);
  const FailureLimit::Verdict verdict = failures_.Count(shown.peer, options_.clock());
  if (verdict.log && options_.log) {
    options_.log(StrCat("a caller at ", HostOfPeer(shown.peer), " was refused: ", MessageOf(found.status()),
                        verdict.unlogged == 0 ? "" : StrCat(" (and ", verdict.unlogged, " more before)")));
  }
  if (!verdict.limited) return found;
  return ResourceExhausted(StrCat("too many calls with a missing or wrong key from ", HostOfPeer(shown.peer),
                                  "; allowed: ", FailureLimit::kPerSecond, " a second"));
}

absl::Status Keyring::CheckCall(const Principal& principal, Scopes needed, std::string_view method) {
  if (principal.MayCall(needed)) return absl::OkStatus();
  Count(Refusal::kScope);
  return MakeStatus(absl::StatusCode::kPermissionDenied,
                    StrCat(method, " needs scope ", TextOf(needed), ", which '", principal.name, "' does not have"));
}

absl::Status Keyring::CheckCollection(const Principal& principal, Scopes needed, std::string_view collection,
                                      std::string_view shown) {
  if (principal.MayUse(needed, collection)) return absl::OkStatus();
  Count(Refusal::kCollection);
  return MakeStatus(absl::StatusCode::kPermissionDenied,
                    StrCat("'", principal.name, "' has no scope ", TextOf(needed), " for collection '", shown,
                           "'; it has it for: ", PatternsOf(principal, needed)));
}

std::vector<std::string> Keyring::Files() const {
  std::vector<std::string> files;
  for (const std::string& file : {options_.keys_file, options_.token_secrets_file}) {
    if (!file.empty()) files.push_back(file);
  }
  return files;
}

KeyringFigures Keyring::figures() const {
  KeyringFigures out;
  for (size_t i = 0; i < refused_.size(); ++i) out.refused_total[i] = refused_[i].load(std::memory_order_relaxed);
  absl::ReaderMutexLock lock(&mutex_);
  out.keys = table_->entries;
  out.reloads_total = reloads_;
  out.failed_reloads_total = failed_reloads_;
  for (const auto& [name, quota] : quotas_) {
    if (QuotaFigures figures = quota->figures(); figures.limits.any()) out.limited.push_back({name, figures});
  }
  std::sort(out.limited.begin(), out.limited.end(),
            [](const LimitedKey& a, const LimitedKey& b) { return a.name < b.name; });
  return out;
}

}  // namespace lightcone::server::auth
