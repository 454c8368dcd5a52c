#include "server/http/http_gate.h"

#include "absl/strings/match.h"
#include "base/dcheck.h"
#include "base/json_depth.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lightcone::server {
namespace {

using Place = CollectionParameter::Place;

constexpr int kBodyDepthMax = 64;

std::string FindText(const std::map<std::string, std::string>& texts, std::string_view name) {
  const auto found = texts.find(std::string(name));
  return found == texts.end() ? "" : found->second;
}

std::string TextInBody(const std::string& body, std::string_view name) {
  if (JsonNestsDeeper(body, kBodyDepthMax)) return "";
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return "";
  const auto found = parsed.find(std::string(name));
  return found == parsed.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace

std::string KeyOf(const HttpRequest& request) {
  if (const auto at = request.headers.find("api-key"); at != request.headers.end()) return at->second;
  constexpr std::string_view kScheme = "bearer ";
  const std::string value = FindText(request.headers, "authorization");
  return absl::StartsWithIgnoreCase(value, ToAbsl(kScheme)) ? value.substr(kScheme.size()) : "";
}

std::string CollectionNameOf(const Route& route, const HttpRequest& request) {
  const CollectionParameter& parameter = route.access.collection();
  switch (parameter.place) {
    case Place::kPath:
      return FindText(request.parameters, parameter.name);
    case Place::kQuery:
      return FindText(request.query, parameter.name);
    case Place::kBody:
      return TextInBody(request.body, parameter.name);
    case Place::kSeen:
    case Place::kAll:
      break;
  }
  return "";
}

absl::Status HttpGate::Admit(const Route& route, HttpRequest* request) const {
  request->caller = HttpCaller{.principal = nullptr, .scopes = route.access.scopes(), .session = ""};
  if (route.access.open()) return absl::OkStatus();
  if (keys_ == nullptr) return TakeCall(&request->caller);
  const std::string key = KeyOf(*request);
  HttpCaller& caller = request->caller;
  if (key.empty() && route.access.takes_session() && sessions_ != nullptr) {
    const std::optional<Sessions::Found> session = sessions_->Find(*request);
    if (session.has_value()) {
      caller.principal = session->principal;
      caller.session = session->id;
    }
  }
  if (caller.principal == nullptr) {
    auth::Shown shown = {.key = key, .certificates = {}, .peer = request->peer};
    if (key.empty()) shown.certificates = request->certificates;
    LC_ASSIGN_OR_RETURN(caller.principal, keys_->Authenticate(shown));
  }
  const std::string method = StrCat(route.method, " ", route.pattern);
  LC_RETURN_IF_ERROR(keys_->CheckCall(*caller.principal, route.access.scopes(), method));
  if (route.access.collection().place == Place::kAll && !caller.SeesAll()) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      StrCat("'", caller.name(), "' has the scope ", auth::TextOf(route.access.scopes()),
                             " for some collections; ", method, " needs it for all of them"));
  }
  return TakeCall(&caller);
}

absl::Status HttpGate::TakeCall(HttpCaller* caller) const {
  const auth::QuotaPtr quota = caller->principal == nullptr ? nullptr : caller->principal->quota;
  caller->meter = auth::MeterOf(quota, writes_);
  if (quota == nullptr) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(auth::CallSlot slot, auth::CallSlot::Take(quota));
  caller->slot = std::make_shared<auth::CallSlot>(std::move(slot));
  return absl::OkStatus();
}

absl::Status HttpGate::CheckRequest(const Route& route, const HttpRequest& request) const {
  const Place place = route.access.collection().place;
  if (keys_ == nullptr || route.access.open() || place == Place::kSeen || place == Place::kAll) return absl::OkStatus();
  LC_DCHECK(request.caller.principal != nullptr);
  if (request.caller.SeesAll()) return absl::OkStatus();
  const std::string name = CollectionNameOf(route, request);
  if (name.empty()) return InvalidField(route.access.collection().name, "missing", "the name of a collection");
  return CheckName(request.caller, name, route.access.collection().is_new);
}

absl::Status HttpGate::CheckName(const HttpCaller& caller, const std::string& name, bool is_new) const {
  if (is_new) LC_RETURN_IF_ERROR(keys_->CheckCollection(*caller.principal, caller.scopes, name, name));
  LC_ASSIGN_OR_RETURN(const std::optional<std::string> resolved, resolve_(name));
  LC_RETURN_IF_ERROR(keys_->CheckCollection(*caller.principal, caller.scopes, resolved.value_or(name), name));
  if (!is_new && !resolved.has_value()) return NotFound(StrCat("no collection '", name, "'"));
  return absl::OkStatus();
}

}  // namespace lightcone::server
