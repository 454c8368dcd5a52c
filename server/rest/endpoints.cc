#include "server/rest/endpoints.h"

#include "server/rest/verbs.h"

namespace lightcone::server {
namespace {

using auth::kAdmin;
using auth::kIndex;
using auth::kRead;
using auth::kWrite;

constexpr RouteAccess Needs(auth::Scopes scopes) { return RouteAccess::Needs(scopes, InPath("collection")); }
// There need not be such a collection.
constexpr RouteAccess NeedsName(auth::Scopes scopes) {
  return RouteAccess::Needs(scopes, ToMake(InPath("collection")));
}
constexpr RouteAccess kListing = RouteAccess::Needs(kRead, kSeenCollections);
constexpr RouteAccess kAllAliases = RouteAccess::Needs(kAdmin, kAllCollections);

#define LC_COLLECTION "/collections/{collection}"

constexpr Endpoint kEndpoints[] = {
    {"Rest/ListCollections", "GET", "/collections", kListing, RestLane::kRead, false, rest::ListCollections},
    {"Rest/GetTelemetry", "GET", "/telemetry", kListing, RestLane::kRead, false, rest::GetTelemetry},
    {"Rest/ListAliases", "GET", "/aliases", kListing, RestLane::kRead, false, rest::ListAliases},
    {"Rest/ChangeAliases", "POST", "/collections/aliases", kAllAliases, RestLane::kOperate, true, rest::ChangeAliases},
    {"Rest/GetCollection", "GET", LC_COLLECTION, Needs(kRead), RestLane::kRead, false, rest::GetCollection},
    {"Rest/CreateCollection", "PUT", LC_COLLECTION, NeedsName(kAdmin), RestLane::kOperate, true,
     rest::CreateCollection},
    {"Rest/UpdateCollection", "PATCH", LC_COLLECTION, Needs(kAdmin), RestLane::kOperate, true, rest::UpdateCollection},
    {"Rest/DropCollection", "DELETE", LC_COLLECTION, NeedsName(kAdmin), RestLane::kOperate, false,
     rest::DropCollection},
    {"Rest/CollectionExists", "GET", LC_COLLECTION "/exists", NeedsName(kRead), RestLane::kRead, false,
     rest::CollectionExists},
    {"Rest/ListCollectionAliases", "GET", LC_COLLECTION "/aliases", Needs(kRead), RestLane::kRead, false,
     rest::ListAliases},
    {"Rest/CreatePayloadIndex", "PUT", LC_COLLECTION "/index", Needs(kIndex), RestLane::kOperate, true,
     rest::CreatePayloadIndex},
    {"Rest/DropPayloadIndex", "DELETE", LC_COLLECTION "/index/{field_name}", Needs(kIndex), RestLane::kOperate, false,
     rest::DropPayloadIndex},
    {"Rest/UpsertPoints", "PUT", LC_COLLECTION "/points", Needs(kWrite), RestLane::kWrite, true, rest::UpsertPoints},
    {"Rest/UpdateVectors", "PUT", LC_COLLECTION "/points/vectors", Needs(kWrite), RestLane::kWrite, true,
     rest::UpdateVectors},
    {"Rest/GetPoints", "POST", LC_COLLECTION "/points", Needs(kRead), RestLane::kRead, true, rest::GetPoints},
    {"Rest/GetPoint", "GET", LC_COLLECTION "/points/{id}", Needs(kRead), RestLane::kRead, false, rest::GetPoint},
    {"Rest/DeletePoints", "POST", LC_COLLECTION "/points/delete", Needs(kWrite), RestLane::kWrite, true,
     rest::DeletePoints},
    {"Rest/ScrollPoints", "POST", LC_COLLECTION "/points/scroll", Needs(kRead), RestLane::kRead, true,
     rest::ScrollPoints},
    {"Rest/CountPoints", "POST", LC_COLLECTION "/points/count", Needs(kRead), RestLane::kRead, true, rest::CountPoints},
    {"Rest/SearchPoints", "POST", LC_COLLECTION "/points/search", Needs(kRead), RestLane::kRead, true,
     rest::SearchPoints},
    {"Rest/SearchPointsBatch", "POST", LC_COLLECTION "/points/search/batch", Needs(kRead), RestLane::kRead, true,
     rest::SearchPointsBatch},
    {"Rest/QueryPoints", "POST", LC_COLLECTION "/points/query", Needs(kRead), RestLane::kRead, true, rest::QueryPoints},
    {"Rest/QueryPointsBatch", "POST", LC_COLLECTION "/points/query/batch", Needs(kRead), RestLane::kRead, true,
     rest::QueryPointsBatch},
    {"Rest/RecommendPoints", "POST", LC_COLLECTION "/points/recommend", Needs(kRead), RestLane::kRead, true,
     rest::RecommendPoints},
    {"Rest/RecommendPointsBatch", "POST", LC_COLLECTION "/points/recommend/batch", Needs(kRead), RestLane::kRead, true,
     rest::RecommendPointsBatch},
    {"Rest/SetPayload", "POST", LC_COLLECTION "/points/payload", Needs(kWrite), RestLane::kWrite, true,
     rest::SetPayload},
    {"Rest/OverwritePayload", "PUT", LC_COLLECTION "/points/payload", Needs(kWrite), RestLane::kWrite, true,
     rest::OverwritePayload},
    {"Rest/DeletePayloadKeys", "POST", LC_COLLECTION "/points/payload/delete", Needs(kWrite), RestLane::kWrite, true,
     rest::DeletePayloadKeys},
    {"Rest/ClearPayload", "POST", LC_COLLECTION "/points/payload/clear", Needs(kWrite), RestLane::kWrite, true,
     rest::ClearPayload},
    {"Rest/ChangePoints", "POST", LC_COLLECTION "/points/batch", Needs(kWrite), RestLane::kWrite, true,
     rest::ChangePoints},
    {"Rest/FacetPoints", "POST", LC_COLLECTION "/facet", Needs(kRead), RestLane::kRead, true, rest::FacetPoints},
    {"Rest/SearchPointGroups", "POST", LC_COLLECTION "/points/search/groups", Needs(kRead), RestLane::kRead, true,
     rest::SearchPointGroups},
    {"Rest/QueryPointGroups", "POST", LC_COLLECTION "/points/query/groups", Needs(kRead), RestLane::kRead, true,
     rest::QueryPointGroups},
};

constexpr std::string_view kWholePoints = "a point without a vector is none: delete whole points";
constexpr std::string_view kSnapshots = "snapshots are made and restored by `lightcone snapshot`";
constexpr std::string_view kOneMachine = "the server is one machine";

constexpr RefusedEndpoint kRefused[] = {
    {"POST", LC_COLLECTION "/points/vectors/delete", kWholePoints},
    {"POST", LC_COLLECTION "/points/discover", "there are no searches by context"},
    {"POST", LC_COLLECTION "/points/discover/batch", "there are no searches by context"},
    {"POST", LC_COLLECTION "/points/recommend/groups", "groups are there for search and query"},
    {"POST", LC_COLLECTION "/points/search/matrix/pairs", "there are no distance matrices"},
    {"POST", LC_COLLECTION "/points/search/matrix/offsets", "there are no distance matrices"},
    {"GET", LC_COLLECTION "/snapshots", kSnapshots},
    {"POST", LC_COLLECTION "/snapshots", kSnapshots},
    {"GET", "/snapshots", kSnapshots},
    {"POST", "/snapshots", kSnapshots},
    {"GET", LC_COLLECTION "/cluster", kOneMachine},
    {"GET", "/cluster", kOneMachine},
    {"PUT", LC_COLLECTION "/shards", kOneMachine},
};

#undef LC_COLLECTION

}  // namespace

std::span<const Endpoint> Endpoints() { return kEndpoints; }
std::span<const RefusedEndpoint> RefusedEndpoints() { return kRefused; }

}  // namespace lightcone::server
