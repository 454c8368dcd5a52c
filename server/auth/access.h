// The one table of what each call needs. A method of package lightcone.v1 that is missing here is refused to everybody
// who shows a key. Threads: pure functions.
#pragma once

#include <span>
#include <string_view>

#include "server/auth/scopes.h"

namespace lightcone::server::auth {

struct Access {
  std::string_view method;  // "Retrieval/Search", as calls are named in metrics
  Scopes needed;            // scopes that the call needs, all of them; none: the call is open to everybody
  // Field of the request that names a collection or an alias of one; empty: none.
  std::string_view collection_field = {};
  // Field of the request with a name that the call gives, to a collection or an alias; the name itself must be allowed.
  std::string_view name_field = {};
  // Field with the name of a collection in a snapshot. It must be allowed, whether the server has such a collection or
  // not. An empty `name_field` then means the same name.
  std::string_view source_field = {};
  // Field with a list of collections or aliases, for the audit file. Such a method has `everything`, which checks all
  // of them.
  std::string_view list_field = {};
  std::string_view job_field = {};  // field with the id of a job, which belongs to a collection
  // An empty `collection_field` names no collection, and answers leave out what is not seen.
  bool may_be_empty = false;
  bool everything = false;  // It concerns all collections: a caller who may use only some of them is refused.
};

std::span<const Access> AccessTable();

// nullptr when the table has no such method.
const Access* FindAccess(std::string_view method);

}  // namespace lightcone::server::auth
