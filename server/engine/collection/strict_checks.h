// What a collection's strict mode refuses. Every check does nothing where it is off.
// Threads: pure functions.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/engine/api/options.h"
#include "server/engine/api/types.h"
#include "server/engine/collection/meta.h"
#include "server/engine/filter/filter.h"

namespace lightcone::server {

// The server's limits, and the collection's where these are lower.
Limits LimitsUnder(const Limits& limits, const StrictMode& strict);

// check(LimitsUnder(...)). The error of a call that keeps the server's limits says that strict mode refuses it.
absl::Status CheckLimits(const CollectionRecord& record, const Limits& limits,
                         absl::FunctionRef<absl::Status(const Limits& limits)> check);

// INVALID_ARGUMENT names `exact`, `nprobe`, `target_recall` or `refresh_top`, and what is allowed: the parts of a
// search that no limit of the server covers.
absl::Status CheckStrictSearch(const CollectionRecord& record, const SearchCall& call);

// FAILED_PRECONDITION names the first condition that no payload index of the collection answers, and the index that
// would. An index counts from the moment it is declared. Conditions on ids, $generation and $uncertainty need none.
// `filter`: nullptr passes. `writes`: the call deletes, or changes payloads.
absl::Status CheckStrictFilter(const CollectionRecord& record, const Filter* filter, bool writes);

}  // namespace lightcone::server
