// A request and its answer, without the connection that carries them. Threads: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/call_meter.h"
#include "server/auth/principal.h"
#include "server/auth/quota.h"

namespace lightcone::server {

// Who sends a request, where keys are asked for.
struct HttpCaller {
  auth::PrincipalPtr principal;  // null: no keys are asked for, or the route is open
  auth::Scopes scopes;           // that the route needs
  std::string session;           // id of the browser's session that stands for the key; empty: none does
  // Place of the call among those in flight, which the server releases before it sends the answer. Null: no limits.
  std::shared_ptr<auth::CallSlot> slot = nullptr;
  std::shared_ptr<CallMeter> meter = nullptr;  // counts rows and bytes; null: nobody does

  // "" where no keys are asked for.
  std::string name() const { return principal == nullptr ? "" : principal->name; }
  // Whether the caller has the route's scopes for the collection, which is named by its own name.
  bool Sees(const std::string& collection) const {
    return principal == nullptr || principal->MayUse(scopes, collection);
  }
  // Whether the caller may write to the collection, whatever the route's scopes are.
  bool MayWrite(const std::string& collection) const {
    return principal == nullptr || principal->MayUse(auth::kWrite, collection);
  }
  bool SeesAll() const { return principal == nullptr || principal->MayUseAll(scopes); }
  void ReleaseSlot() const {
    if (slot != nullptr) slot->Release();
  }
};

constexpr char kPlainText[] = "text/plain; charset=utf-8";

struct HttpRequest {
  std::string method;                          // "GET", as the client wrote it
  std::string path;                            // "/api/v1/overview", percent-decoded
  std::map<std::string, std::string> query;    // percent-decoded; the first value of each name
  std::map<std::string, std::string> headers;  // names in lower case; the first value of each name
  std::string body;
  std::map<std::string, std::string> parameters = {};  // parts of the path that the route's pattern names
  std::string peer = {};                               // "ipv4:10.0.0.7:5123"
  std::vector<std::string> certificates = {};          // names in the client's verified certificate
  HttpCaller caller = {};
  // Times of the steady clock, around the check of the caller; 0: the route is not timed.
  int64_t auth_began_ns = 0, auth_ended_ns = 0;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string_view, std::string>> headers = {};  // beside type, length and connection
};

// What the server says where no handler answers: the reason and a line's end.
inline HttpAnswer RefusalOf(int status, std::string reason) { return {status, kPlainText, std::move(reason) + "\n"}; }

}  // namespace lightcone::server
