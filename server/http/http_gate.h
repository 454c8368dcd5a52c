// Whether a caller may use a route: who it is, before the body is read, and then whether it may use the collection that
// the request names. With no keys everybody may do everything.
// Threads: every method is safe from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/keyring.h"
#include "server/auth/quota.h"
#include "server/http/http_message.h"
#include "server/http/route_table.h"
#include "server/http/sessions.h"

namespace lightcone::server {

// The collection's own name behind a name or an alias; none: there is no such collection. UNAVAILABLE while the server
// starts.
using ResolveCollection = std::function<absl::StatusOr<std::optional<std::string>>(const std::string& name)>;

class HttpGate {
 public:
  // No keys are asked for.
  HttpGate() = default;
  // `keys` and `sessions` must outlive the gate. `keys` may be null: none are asked for. `sessions` may be null:
  // browsers have none. `writes` may be null: no limit holds for all writes together.
  HttpGate(auth::Keyring* keys, Sessions* sessions, ResolveCollection resolve, auth::QuotaPtr writes = nullptr)
      : keys_(keys), sessions_(sessions), resolve_(std::move(resolve)), writes_(std::move(writes)) {}

  // Fills in the caller, and takes a call from its limits. UNAUTHENTICATED, RESOURCE_EXHAUSTED or PERMISSION_DENIED, as
  // Keyring has them, or RESOURCE_EXHAUSTED as Quota has it. Must not wait.
  absl::Status Admit(const Route& route, HttpRequest* request) const;

  // PERMISSION_DENIED for a collection that the caller may not use, whether there is one or not. NOT_FOUND for an
  // unknown collection that it might use. INVALID_ARGUMENT for a request that names none. REQUIRES: the request was
  // admitted to this route.
  absl::Status CheckRequest(const Route& route, const HttpRequest& request) const;

 private:
  absl::Status TakeCall(HttpCaller* caller) const;
  absl::Status CheckName(const HttpCaller& caller, const std::string& name, bool is_new) const;

  auth::Keyring* keys_ = nullptr;
  Sessions* sessions_ = nullptr;
  ResolveCollection resolve_;
  auth::QuotaPtr writes_;
};

// The name of the collection as the request gives it; empty: it gives none, or the route has none.
std::string CollectionNameOf(const Route& route, const HttpRequest& request);

// The key that a request shows as `api-key: KEY` or `authorization: Bearer KEY`; empty: none.
std::string KeyOf(const HttpRequest& request);

}  // namespace lightcone::server
