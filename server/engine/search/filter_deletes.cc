#include "server/engine/search/filter_deletes.h"

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/search/filtered_batch.h"

namespace lightcone::server {

absl::StatusOr<DeleteByFilterAnswer> FilterDeletes::DeleteByFilter(const DeleteByFilterCall& call,
                                                                   const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "delete"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  const Collection& collection = *served->collection;
  LC_ASSIGN_OR_RETURN(const Filter filter, Filter::Make(call.filter));
  LC_RETURN_IF_ERROR(CheckStrictFilter(collection.state()->record, &filter, /*writes=*/true));
  const FilteredBatch batch{&filter, call.limit, context_.options.limits.batch_items_max, call.token, "delete"};
  const uint32_t view_generation = ViewGenerationOf(*collection.state());
  WriteJob job;
  job.durability = call.durability;
  DeleteByFilterAnswer answer;
  LC_ASSIGN_OR_RETURN(answer.token, CollectFiltered(collection, batch, view_generation, context, &job));
  // A newer embedding of the same content changes what the filter says only if the filter asks for the embedding.
  if (!filter.needs_generation() && !filter.needs_uncertainty()) {
    job.still_wanted = [&filter](const ItemId& id, const ExpectedHead& read, const ItemRecord& now) {
      return read.internal_id == now.internal_id && filter.Matches({&now.payload_json, 0, 0, &id});
    };
  }
  LC_ASSIGN_OR_RETURN(const WriteResult result, served->writer->Submit(&job, context));
  answer.sequence = result.sequence;
  answer.deleted = result.items;
  return answer;
}

}  // namespace lightcone::server
