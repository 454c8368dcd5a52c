#include "server/http/sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "server/auth/random_text.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kSessionAttributes = "; Path=/; HttpOnly; SameSite=Strict";

}  // namespace

// The prefix makes browsers take the cookie over TLS alone, and from this very host.
std::string Sessions::CookieName() const { return encrypted_ ? "__Host-lightcone-session" : "lightcone-session"; }

bool Sessions::IsOver(const Session& session, absl::Time now) const {
  return now - session.used >= kIdleMax || now - session.opened >= kAgeMax;
}

absl::StatusOr<Sessions::Opened> Sessions::Open(std::string_view key) {
  Opened opened;
  LC_ASSIGN_OR_RETURN(opened.id, auth::RandomText());
  LC_ASSIGN_OR_RETURN(opened.csrf_token, auth::RandomText());
  const absl::Time now = clock_();
  absl::MutexLock lock(&mutex_);
  if (sessions_.size() >= kSessionsMax) {
    absl::erase_if(sessions_, [&](const auto& one) { return IsOver(one.second, now); });
  }
  if (sessions_.size() >= kSessionsMax) {
    sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(),
                                     [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  sessions_.emplace(opened.id, Session{auth::CredentialOf(key), opened.csrf_token, now, now});
  return opened;
}

std::optional<Sessions::Found> Sessions::Find(const HttpRequest& request) {
  const auto header = request.headers.find("cookie");
  if (header == request.headers.end()) return std::nullopt;
  const std::string prefix = CookieName() + "=";
  std::string id;
  for (absl::string_view part : absl::StrSplit(header->second, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (absl::ConsumePrefix(&part, prefix)) id = std::string(part);
  }
  if (id.empty()) return std::nullopt;
  const absl::Time now = clock_();
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return std::nullopt;
  absl::StatusOr<auth::PrincipalPtr> principal = keys_->LookUp(found->second.credential);
  if (IsOver(found->second, now) || !principal.ok()) {
    sessions_.erase(found);
    return std::nullopt;
  }
  found->second.used = now;
  return Found{std::move(id), *std::move(principal)};
}

std::string Sessions::CsrfTokenOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? "" : found->second.csrf_token;
}

bool Sessions::HasCsrfToken(const std::string& id, std::string_view token) const {
  const std::string wanted = CsrfTokenOf(id);
  return !wanted.empty() && auth::AreEqual(wanted, token);
}

void Sessions::Close(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(id);
}

std::string Sessions::CookieOf(const std::string& id) const {
  return StrCat(CookieName(), "=", id, kSessionAttributes, encrypted_ ? "; Secure" : "",
                "; Max-Age=", absl::ToInt64Seconds(kAgeMax));
}

std::string Sessions::NoCookie() const {
  return StrCat(CookieName(), "=", kSessionAttributes, encrypted_ ? "; Secure" : "", "; Max-Age=0");
}

size_t Sessions::size() const {
  absl::MutexLock lock(&mutex_);
  return sessions_.size();
}

}  // namespace lightcone::server
