#include "server/rest/endpoints.h"

#include "server/rest/verbs.h"

namespace lightcone::server {
namespace {

using auth::kAdmin;
using auth::kOperate;
using auth::kRead;
using auth::kWrite;

constexpr std::string_view kOne = "collection";
#define LC_COLLECTION "/collections/{collection}"

constexpr Endpoint kEndpoints[] = {
    {"Rest/ListCollections", "GET", "/collections", kRead, "", RestLane::kRead, false, rest::ListCollections},
    {"Rest/ListAliases", "GET", "/aliases", kRead, "", RestLane::kRead, false, rest::ListAliases},
    {"Rest/ChangeAliases", "POST", "/collections/aliases", kAdmin, "", RestLane::kOperate, true, rest::ChangeAliases},
    {"Rest/GetCollection", "GET", LC_COLLECTION, kRead, kOne, RestLane::kRead, false, rest::GetCollection},
    {"Rest/CreateCollection", "PUT", LC_COLLECTION, kAdmin, kOne, RestLane::kOperate, true, rest::CreateCollection},
    {"Rest/UpdateCollection", "PATCH", LC_COLLECTION, kAdmin, kOne, RestLane::kOperate, true, rest::UpdateCollection},
    {"Rest/DropCollection", "DELETE", LC_COLLECTION, kAdmin, kOne, RestLane::kOperate, false, rest::DropCollection},
    {"Rest/CollectionExists", "GET", LC_COLLECTION "/exists", kRead, kOne, RestLane::kRead, false,
     rest::CollectionExists},
    {"Rest/ListCollectionAliases", "GET", LC_COLLECTION "/aliases", kRead, kOne, RestLane::kRead, false,
     rest::ListAliases},
    {"Rest/CreatePayloadIndex", "PUT", LC_COLLECTION "/index", kOperate, kOne, RestLane::kOperate, true,
     rest::CreatePayloadIndex},
    {"Rest/DropPayloadIndex", "DELETE", LC_COLLECTION "/index/{field_name}", kOperate, kOne, RestLane::kOperate, false,
     rest::DropPayloadIndex},
    {"Rest/UpsertPoints", "PUT", LC_COLLECTION "/points", kWrite, kOne, RestLane::kWrite, true, rest::UpsertPoints},
    {"Rest/GetPoints", "POST", LC_COLLECTION "/points", kRead, kOne, RestLane::kRead, true, rest::GetPoints},
    {"Rest/GetPoint", "GET", LC_COLLECTION "/points/{id}", kRead, kOne, RestLane::kRead, false, rest::GetPoint},
    {"Rest/DeletePoints", "POST", LC_COLLECTION "/points/delete", kWrite, kOne, RestLane::kWrite, true,
     rest::DeletePoints},
    {"Rest/ScrollPoints", "POST", LC_COLLECTION "/points/scroll", kRead, kOne, RestLane::kRead, true,
     rest::ScrollPoints},
    {"Rest/CountPoints", "POST", LC_COLLECTION "/points/count", kRead, kOne, RestLane::kRead, true, rest::CountPoints},
    {"Rest/SearchPoints", "POST", LC_COLLECTION "/points/search", kRead, kOne, RestLane::kRead, true,
     rest::SearchPoints},
    {"Rest/SearchPointsBatch", "POST", LC_COLLECTION "/points/search/batch", kRead, kOne, RestLane::kRead, true,
     rest::SearchPointsBatch},
    {"Rest/QueryPoints", "POST", LC_COLLECTION "/points/query", kRead, kOne, RestLane::kRead, true, rest::QueryPoints},
    {"Rest/QueryPointsBatch", "POST", LC_COLLECTION "/points/query/batch", kRead, kOne, RestLane::kRead, true,
     rest::QueryPointsBatch},
    {"Rest/RecommendPoints", "POST", LC_COLLECTION "/points/recommend", kRead, kOne, RestLane::kRead, true,
     rest::RecommendPoints},
    {"Rest/RecommendPointsBatch", "POST", LC_COLLECTION "/points/recommend/batch", kRead, kOne, RestLane::kRead, true,
     rest::RecommendPointsBatch},
};

constexpr std::string_view kWholePoints = "a vector belongs to its point: upsert or delete whole points";
constexpr std::string_view kSnapshots = "snapshots are of the whole server: `lightcone snapshot`";
constexpr std::string_view kOneMachine = "the server is one machine";

constexpr RefusedEndpoint kRefused[] = {
    {"PUT", LC_COLLECTION "/points/vectors", kWholePoints},
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
    {"GET", "/telemetry", "see /metrics"},
};

#undef LC_COLLECTION

}  // namespace

std::span<const Endpoint> Endpoints() { return kEndpoints; }
std::span<const RefusedEndpoint> RefusedEndpoints() { return kRefused; }

}  // namespace lightcone::server
