#include "server/engine/rollout/canary_calls.h"

#include <optional>

#include "base/number_text.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/live/live_figures.h"
#include "server/engine/rollout/activation.h"
#include "server/engine/rollout/canary.h"
#include "server/engine/services/operator_transaction.h"

namespace lightcone::server {
namespace {

// Recall of a generation's queries, of the searches that were sampled lately.
std::optional<double> RecallOf(const LiveRecallStatus& live, uint32_t generation) {
  double expected = 0, found = 0;
  for (const LiveRecall& recall : live.recall) {
    if (recall.query_generation != generation) continue;
    expected += recall.recent_expected;
    found += recall.recent_found;
  }
  return expected < 1 ? std::nullopt : std::optional<double>(found / expected);
}

CanaryStatus CanaryOf(const Served& served, const CollectionRecord& record) {
  CanaryStatus status;
  status.generation = record.canary_generation;
  if (status.generation == 0) return status;
  status.share = record.canary_share;
  status.began = absl::FromUnixMicros(record.canary_us);
  status.canary.generation = record.canary_generation;
  status.active.generation = record.active_generation;
  served.canary->Fill(&status);
  const LiveRecallStatus live = served.live->Status();
  status.canary.live_recall = RecallOf(live, record.canary_generation);
  status.active.live_recall = RecallOf(live, record.active_generation);
  return status;
}

absl::Status CheckShare(const SetCanaryCall& call) {
  if (call.generation == 0 && call.share != 0) {
    return InvalidField("share", NumberText(call.share), "0 where generation is 0, which ends the canary");
  }
  if (call.generation != 0 && !(call.share > 0 && call.share <= 1)) {
    return InvalidField("share", NumberText(call.share), "above 0 .. 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CanaryStatus> CanaryCalls::Set(const SetCanaryCall& call) {
  LC_RETURN_IF_ERROR(CheckReason(call.force, call.reason));
  LC_RETURN_IF_ERROR(CheckOperatorName(call.operator_name));
  LC_RETURN_IF_ERROR(CheckShare(call));
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const std::string fingerprint = StrCat(collection.number(), "|", call.generation, "|", NumberText(call.share), "|",
                                         call.force, "|", DigestOf(call.reason));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(context_, collection, {call.request_id, "SetCanary", fingerprint}));
  const CollectionState& state = change.before();
  if (change.earlier() != nullptr) return CanaryOf(*served, state.record);
  const uint32_t earlier = state.record.canary_generation;
  const uint32_t active = state.record.active_generation;
  MayServe may;
  if (call.generation != 0) {
    LC_RETURN_IF_ERROR(state.Resolve(0).status());  // The active generation serves the rest.
    LC_RETURN_IF_ERROR(state.Resolve(call.generation).status());
    if (call.generation == active) {
      return InvalidField("generation", StrCat(call.generation), "another one than the active generation");
    }
    LC_ASSIGN_OR_RETURN(
        may, CheckMayServe(collection, state, call.generation, call.force, /*gate=*/true, "make a canary of"));
  }
  change.request().generation = call.generation;
  change.request().out_of_reach = may.out_of_reach;
  if (call.generation == 0 && earlier == 0) {
    LC_RETURN_IF_ERROR(context_.store->Sync());  // The disk may have refused the call that ended the last canary.
    // The request is remembered: a later canary belongs to somebody else.
    if (!call.request_id.empty()) LC_RETURN_IF_ERROR(change.Commit());
    return CanaryOf(*served, state.record);
  }
  CollectionRecord& record = change.records().record();
  if (call.generation != earlier) record.canary_us = call.generation == 0 ? 0 : change.time_us();
  record.canary_generation = call.generation;
  record.canary_share = call.share;
  LC_RETURN_IF_ERROR(change.Audit({.generation = call.generation == 0 ? earlier : call.generation,
                                   .previous_generation = active,
                                   .forced = call.force,
                                   .reason = call.reason,
                                   .out_of_reach = may.out_of_reach,
                                   .validated = may.validated,
                                   .canary_share = call.share,
                                   .operator_name = call.operator_name}));
  const OperatorWrite written = change.Write();
  if (!written.in_store) return written.status;
  if (call.generation != earlier) served->canary->Restart();
  change.Publish();
  LC_RETURN_IF_ERROR(written.status);
  return CanaryOf(*served, collection.state()->record);
}

absl::StatusOr<CanaryStatus> CanaryCalls::Get(const std::string& name) const {
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(name));
  return CanaryOf(*served, served->collection->state()->record);
}

}  // namespace lightcone::server
