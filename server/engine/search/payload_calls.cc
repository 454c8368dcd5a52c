#include "server/engine/search/payload_calls.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/payload_patch.h"
#include "server/engine/collection/strict_checks.h"
#include "server/engine/search/filtered_batch.h"

namespace lightcone::server {
namespace {

absl::Status CheckChangedIds(const ChangePayloadCall& call, const Limits& limits) {
  if (call.limit != 0) return InvalidField("limit", StrCat(call.limit), "0 where there is no filter");
  if (!call.token.empty()) return InvalidField("token", "given", "left out where there is no filter");
  LC_RETURN_IF_ERROR(CheckCount(call.ids.size(), limits.batch_items_max, "ids"));
  absl::flat_hash_set<ItemId> seen;
  for (size_t i = 0; i < call.ids.size(); ++i) {
    const std::string field = StrCat("ids[", i, "]");
    LC_RETURN_IF_ERROR(CheckItemId(call.ids[i], limits.id_bytes_max, field));
    if (!seen.insert(call.ids[i]).second) {
      return InvalidField(field, StrCat(ToString(call.ids[i]), ", for the second time"), "each id once");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChangePayloadAnswer> PayloadCalls::ChangePayload(const ChangePayloadCall& call,
                                                                const CallContext& context) const {
  LC_RETURN_IF_ERROR(CheckAlive(context, "change payload"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  const auto state = served->collection->state();
  const Limits limits = LimitsUnder(context_.options.limits, state->record.strict_mode);
  absl::StatusOr<PayloadPatch> patch;
  LC_RETURN_IF_ERROR(CheckLimits(state->record, context_.options.limits, [&](const Limits& under) {
    patch = PayloadPatch::Make(call, under.payload_bytes_max);
    return patch.status();
  }));
  WriteJob job;
  job.durability = call.durability;
  job.bytes_added = patch->bytes_added();
  job.new_payload = [&patch](const ItemId& id, const std::string& json) { return patch->Of(id, json); };
  ChangePayloadAnswer answer;
  std::optional<Filter> filter;
  if (call.filter) {
    if (!call.ids.empty()) return InvalidField("ids", "given", "left out where there is a filter");
    LC_ASSIGN_OR_RETURN(filter, Filter::Make(*call.filter));
    LC_RETURN_IF_ERROR(CheckStrictFilter(state->record, &*filter, /*writes=*/true));
    const FilteredBatch batch{&*filter, call.limit, limits.batch_items_max, call.token, "change payload"};
    const uint32_t view_generation = ViewGenerationOf(*state);
    LC_ASSIGN_OR_RETURN(answer.token, CollectFiltered(*served->collection, batch, view_generation, context, &job));
    // An item that was written meanwhile is meant if it passes now. Its uncertainty is not at hand there.
    if (!filter->needs_uncertainty()) {
      job.still_wanted = [&filter, view_generation](const ItemId& id, const ExpectedHead&, const ItemRecord& now) {
        return filter->Matches({&now.payload_json, HeadGeneration(now.generations, view_generation), 0, &id});
      };
    }
  } else {
    LC_RETURN_IF_ERROR(CheckLimits(state->record, context_.options.limits,
                                   [&call](const Limits& under) { return CheckChangedIds(call, under); }));
    job.ids = call.ids;
  }
  LC_ASSIGN_OR_RETURN(const WriteResult result, served->writer->Submit(&job, context));
  answer.sequence = result.sequence;
  answer.changed = result.items;
  if (!filter) {
    for (const size_t i : job.missing) answer.missing.push_back(call.ids[i]);
  }
  return answer;
}

}  // namespace lightcone::server
