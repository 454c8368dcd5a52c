#include "server/auth/access.h"

#include "absl/container/flat_hash_map.h"
#include "base/strings.h"

namespace lightcone::server::auth {

namespace {

constexpr Access kTable[] = {
    {.method = "Retrieval/Upsert", .needed = kWrite, .collection_field = "collection"},
    // Each batch of the stream names its collection.
    {.method = "Retrieval/UpsertStream", .needed = kWrite, .collection_field = "collection"},
    {.method = "Retrieval/Delete", .needed = kWrite, .collection_field = "collection"},
    {.method = "Retrieval/ChangePayload", .needed = kWrite, .collection_field = "collection"},
    {.method = "Retrieval/Get", .needed = kRead, .collection_field = "collection"},
    {.method = "Retrieval/Search", .needed = kRead, .collection_field = "collection"},
    {.method = "Retrieval/Scroll", .needed = kRead, .collection_field = "collection"},
    {.method = "Retrieval/Count", .needed = kRead, .collection_field = "collection"},
    {.method = "Retrieval/Facet", .needed = kRead, .collection_field = "collection"},

    {.method = "Collections/List", .needed = kRead, .may_be_empty = true},
    {.method = "Collections/Get", .needed = kRead, .collection_field = "name"},
    {.method = "Collections/Create", .needed = kAdmin, .name_field = "name"},
    {.method = "Collections/Drop", .needed = kAdmin, .collection_field = "name"},
    // An empty collection removes the alias. Where the alias points now is checked, too.
    {.method = "Collections/SetAlias",
     .needed = kAdmin,
     .collection_field = "collection",
     .name_field = "alias",
     .may_be_empty = true},
    {.method = "Collections/Snapshot", .needed = kAdmin, .collection_field = "collection"},
    {.method = "Collections/Restore", .needed = kAdmin, .name_field = "collection"},
    {.method = "Collections/Rebuild", .needed = kOperate, .collection_field = "collection"},
    {.method = "Collections/Update", .needed = kOperate, .collection_field = "collection"},
    {.method = "Collections/IndexPayload", .needed = kIndex, .collection_field = "collection"},

    {.method = "Generations/List", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/Get", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/GetCanary", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/ListAdapters", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/ListProbes", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/SampleItems", .needed = kRead, .collection_field = "collection"},
    {.method = "Generations/Audit", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/Register", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/Activate", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/SetCanary", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/Rollback", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/PutAdapter", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/DropAdapter", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/FitAdapter", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/Validate", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/Retire", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/PutProbes", .needed = kOperate, .collection_field = "collection"},
    {.method = "Generations/DropProbes", .needed = kOperate, .collection_field = "collection"},

    // A worker gets raw inputs, and writes their embeddings.
    {.method = "Backfill/Lease", .needed = kRead | kWrite, .collection_field = "collection"},
    {.method = "Backfill/Start", .needed = kOperate, .collection_field = "collection"},
    {.method = "Backfill/Pause", .needed = kOperate, .collection_field = "collection"},
    {.method = "Backfill/Status", .needed = kRead, .collection_field = "collection"},
    // A trial costs what the encoder costs.
    {.method = "Backfill/Estimate", .needed = kOperate, .collection_field = "collection"},
    {.method = "Backfill/Watch", .needed = kRead, .collection_field = "collection"},

    {.method = "Jobs/Get", .needed = kRead, .job_field = "id"},
    {.method = "Jobs/List", .needed = kRead, .collection_field = "collection", .may_be_empty = true},
    {.method = "Jobs/Watch", .needed = kRead, .job_field = "id"},
    {.method = "Jobs/Cancel", .needed = kOperate, .job_field = "id"},

    // A recipe may name folders of the server.
    {.method = "Training/Start", .needed = kAdmin, .collection_field = "collection"},
    {.method = "Training/Get", .needed = kRead, .job_field = "id"},
    {.method = "Training/List", .needed = kRead, .collection_field = "collection", .may_be_empty = true},
    {.method = "Training/Watch", .needed = kRead, .job_field = "id"},
    {.method = "Training/Cancel", .needed = kOperate, .job_field = "id"},

    // A snapshot may hold all collections.
    {.method = "Snapshots/CreateSnapshot", .needed = kAdmin, .list_field = "collections", .everything = true},
    {.method = "Snapshots/ListSnapshots", .needed = kAdmin, .everything = true},
    {.method = "Snapshots/DeleteSnapshot", .needed = kAdmin, .everything = true},
    {.method = "Snapshots/VerifySnapshot", .needed = kAdmin, .everything = true},
    {.method = "Snapshots/DownloadSnapshot", .needed = kAdmin, .everything = true},
    {.method = "Snapshots/UploadSnapshot", .needed = kAdmin, .everything = true},
    {.method = "Snapshots/RestoreCollection", .needed = kAdmin, .name_field = "name", .source_field = "collection"},

    // Balancers ask for health without a key. Reflection tells the wire, which is public.
    {.method = "grpc.health.v1.Health/Check", .needed = kNoScope},
    {.method = "grpc.health.v1.Health/Watch", .needed = kNoScope},
    {.method = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .needed = kNoScope},
};

}  // namespace

std::span<const Access> AccessTable() { return kTable; }

const Access* FindAccess(std::string_view method) {
  static const auto* const by_method = [] {
    auto* out = new absl::flat_hash_map<absl::string_view, const Access*>;
    for (const Access& access : AccessTable()) out->emplace(ToAbsl(access.method), &access);
    return out;
  }();
  const auto at = by_method->find(ToAbsl(method));
  return at == by_method->end() ? nullptr : at->second;
}

}  // namespace lightcone::server::auth
