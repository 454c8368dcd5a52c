// The sessions of browsers in which somebody has shown a key. A session has a random id, which the browser keeps in a
// cookie that no script reads, and ends with its key, by its time, or when it is closed.
// Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/auth/keyring.h"
#include "server/http/http_message.h"

namespace lightcone::server {

class Sessions {
 public:
  static constexpr size_t kSessionsMax = 1'000;  // the one that was used longest ago gives way
  static constexpr absl::Duration kIdleMax = absl::Minutes(30);
  static constexpr absl::Duration kAgeMax = absl::Hours(12);

  struct Found {
    std::string id;
    auth::PrincipalPtr principal;
  };
  struct Opened {
    std::string id;
    std::string csrf_token;
  };

  // `keys` must outlive it. `encrypted`: browsers send the cookie over TLS alone. `clock`: called from any thread.
  Sessions(const auth::Keyring* keys, bool encrypted, std::function<absl::Time()> clock = absl::Now)
      : keys_(keys), encrypted_(encrypted), clock_(std::move(clock)) {}

  // A session of a key that Keyring::Authenticate has let in. INTERNAL when the system gives no random bits.
  absl::StatusOr<Opened> Open(std::string_view key);
  // The session whose id the request's cookie has, while its key is valid. Nothing for a request without one.
  std::optional<Found> Find(const HttpRequest& request);
  // The token that each action of the session has to send; empty: there is no such session.
  std::string CsrfTokenOf(const std::string& id) const;
  // Whether `token` is that one, compared in constant time.
  bool HasCsrfToken(const std::string& id, std::string_view token) const;
  void Close(const std::string& id);

  // Values of Set-Cookie that give a browser the session, and take it away.
  std::string CookieOf(const std::string& id) const;
  std::string NoCookie() const;
  size_t size() const;

 private:
  struct Session {
    auth::Credential credential;
    std::string csrf_token;
    absl::Time opened, used;
  };
  std::string CookieName() const;
  bool IsOver(const Session& session, absl::Time now) const;

  const auth::Keyring* const keys_;
  const bool encrypted_;
  const std::function<absl::Time()> clock_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Session> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lightcone::server
