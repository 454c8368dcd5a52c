// What a route needs from its callers, where keys are asked for. Threads: plain values.
#pragma once

#include <string_view>

#include "server/auth/scopes.h"

namespace lightcone::server {

// Where a request names the collection that it is about.
struct CollectionParameter {
  enum class Place {
    kPath,   // a part of the route's pattern in braces
    kQuery,  // a parameter behind the question mark
    kBody,   // a text at the top level of a JSON body
    kSeen,   // nowhere: the handler leaves out the collections that HttpRequest::caller does not see
    kAll,    // nowhere: the route concerns every collection, and callers of some of them are refused
  };
  Place place = Place::kAll;
  std::string_view name = {};  // of the parameter
  bool is_new = false;         // There need not be such a collection: the call makes one, or an alias.
};

constexpr CollectionParameter InPath(std::string_view name) { return {CollectionParameter::Place::kPath, name}; }
constexpr CollectionParameter InQuery(std::string_view name) { return {CollectionParameter::Place::kQuery, name}; }
constexpr CollectionParameter InBody(std::string_view name) { return {CollectionParameter::Place::kBody, name}; }
inline constexpr CollectionParameter kSeenCollections = {CollectionParameter::Place::kSeen};
inline constexpr CollectionParameter kAllCollections = {CollectionParameter::Place::kAll};
// `parameter` names a collection or an alias that the call makes.
constexpr CollectionParameter ToMake(CollectionParameter parameter) {
  parameter.is_new = true;
  return parameter;
}

// Has no default, so that a route without a declaration does not compile.
class RouteAccess {
 public:
  // Everybody may call the route.
  static constexpr RouteAccess Open() { return RouteAccess(auth::kNoScope, kAllCollections); }
  // `scopes`: at least one, all of which the caller needs.
  static constexpr RouteAccess Needs(auth::Scopes scopes, CollectionParameter collection) {
    return RouteAccess(scopes, collection);
  }
  // The same, and the session of a browser stands for its key. The handler asks for same_origin.h.
  constexpr RouteAccess OrSession() const {
    RouteAccess out = *this;
    out.takes_session_ = true;
    return out;
  }

  constexpr bool open() const { return scopes_ == auth::kNoScope; }
  constexpr auth::Scopes scopes() const { return scopes_; }
  constexpr const CollectionParameter& collection() const { return collection_; }
  constexpr bool takes_session() const { return takes_session_; }

 private:
  constexpr RouteAccess(auth::Scopes scopes, CollectionParameter collection)
      : scopes_(scopes), collection_(collection) {}

  auth::Scopes scopes_;
  CollectionParameter collection_;
  bool takes_session_ = false;
};

}  // namespace lightcone::server
