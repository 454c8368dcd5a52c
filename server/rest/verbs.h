// The verbs of the REST room, by the names that endpoints.cc lists. Each answers the part "result" as JSON text.
// Threads: every function is safe to call concurrently. Errors: those of the engine's call, and INVALID_ARGUMENT or
// UNIMPLEMENTED for what the body says.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/rest/rest_call.h"

namespace lightcone::server::rest {

using Answer = absl::StatusOr<std::string>;

// Collections.
Answer GetTelemetry(const RestCall& call);
Answer ListCollections(const RestCall& call);
Answer GetCollection(const RestCall& call);
Answer CollectionExists(const RestCall& call);
Answer CreateCollection(const RestCall& call);
Answer UpdateCollection(const RestCall& call);
Answer DropCollection(const RestCall& call);
Answer CreatePayloadIndex(const RestCall& call);
Answer DropPayloadIndex(const RestCall& call);
Answer ChangeAliases(const RestCall& call);
Answer ListAliases(const RestCall& call);

// Points.
Answer UpsertPoints(const RestCall& call);
Answer UpdateVectors(const RestCall& call);
Answer GetPoints(const RestCall& call);
Answer GetPoint(const RestCall& call);
Answer DeletePoints(const RestCall& call);
Answer ScrollPoints(const RestCall& call);
// A page in the order of a payload field, "order_by". There is no next one: "start_from" goes on.
Answer ScrollPointsInOrder(const RestCall& call);
Answer CountPoints(const RestCall& call);
Answer FacetPoints(const RestCall& call);

// Payloads, and lists of changes, which are made one after the other.
Answer SetPayload(const RestCall& call);
Answer OverwritePayload(const RestCall& call);
Answer DeletePayloadKeys(const RestCall& call);
Answer ClearPayload(const RestCall& call);
Answer ChangePoints(const RestCall& call);

// Searches.
Answer SearchPoints(const RestCall& call);
Answer SearchPointsBatch(const RestCall& call);
Answer QueryPoints(const RestCall& call);
Answer QueryPointsBatch(const RestCall& call);
Answer RecommendPoints(const RestCall& call);
Answer RecommendPointsBatch(const RestCall& call);
Answer SearchPointGroups(const RestCall& call);
Answer QueryPointGroups(const RestCall& call);

}  // namespace lightcone::server::rest
