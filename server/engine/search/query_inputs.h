// Queries that are raw inputs, as vectors of the generation that is asked and of older ones.
// Threads: safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/api/types.h"
#include "server/engine/search/search.h"
#include "server/engine/services/context.h"
#include "server/engine/services/served.h"

namespace lightcone::server {

// Embeds the raw inputs among the call's queries by the generation, side by side. `queries`: one a query of the call;
// each gets its vector or its own error. Errors of EmbedInputs.
absl::Status EmbedQueries(const Context& engine, const Collection& collection, const GenerationRecord& generation,
                          const SearchCall& call, const CallContext& context, std::vector<BoundVector>* queries);

// Embeds the same inputs by each older generation that has items in the view and an encoder. Returns the first error of
// such an encoder, or an empty text: a query that one failed goes on without its vector. CANCELLED, DEADLINE_EXCEEDED.
// REQUIRES: EmbedQueries has come before.
absl::StatusOr<std::string> EmbedOlder(const Context& engine, Collection& collection, const CollectionState& state,
                                       const GenerationRecord& generation, const SearchCall& call,
                                       const CallContext& context, std::vector<BoundVector>* queries);

// Looks whether queries come from the models of the generations that they are vectors of, and returns the warnings. A
// query that the collection refuses gets FAILED_PRECONDITION. Queries by an item, and computed ones, are not looked at.
std::vector<std::string> WatchModels(const Served& served, const GenerationRecord& generation, const SearchCall& call,
                                     std::vector<BoundVector>* queries);

}  // namespace lightcone::server
